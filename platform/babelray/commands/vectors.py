"""`babelray vectors`: the neighbours of a word, and export of static vectors to files for other programs."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from babelray.errors import ArtifactError, DataError
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import Artifact
from babelray.storage.runs import find_artifact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from babelray.vectors.word_vectors import WordVectors

FOLDER = "vectors"


def show_neighbours(location: AnyPath, code: str, word: str, count: int, console: Console) -> None:
    """Print the words whose vectors are nearest to that of a word."""
    from rich.table import Table
    from rich.text import Text

    from babelray.vectors.word_vectors import WordVectors

    artifact = _artifact(location)
    _check_languages([code], artifact)
    vectors = WordVectors.load(artifact.location / FOLDER / code)
    table = Table("word", box=None, pad_edge=False)
    table.add_column("cosine", justify="right")
    for neighbour, cosine in neighbours(vectors, word, count):
        table.add_row(Text(neighbour), f"{cosine:.3f}")
    console.print(table)


def neighbours(vectors: WordVectors, word: str, count: int) -> list[tuple[str, float]]:
    """The nearest other words by cosine, best first; for an unknown word an error with the nearest spellings.

    The mean of all words is subtracted first: a component that all vectors share makes any two words similar.
    """
    from babelray.vectors.retrieval import nearest

    if word not in vectors.position:
        spellings = difflib.get_close_matches(word.lower(), vectors.words, n=5)
        raise DataError(
            f"there is no vector of {word!r}", f"Similar words: {', '.join(spellings)}." if spellings else ""
        )
    own = vectors.position[word]
    centred = vectors.matrix - vectors.matrix.mean(0)
    scores, positions = nearest(centred[own : own + 1], centred, count + 1)
    pairs = zip(positions[0].tolist(), scores[0].tolist(), strict=True)
    return [(vectors.words[i], score) for i, score in pairs if i != own][:count]


def export(location: AnyPath, out: AnyPath, codes: Sequence[str], ending: str, console: Console) -> None:
    """Write `<language>.<ending>` for these languages, or for all if none are named."""
    from babelray.cluster.progress import Progress
    from babelray.vectors.formats import write_vectors
    from babelray.vectors.word_vectors import WordVectors

    artifact = _artifact(location)
    _check_languages(codes, artifact)
    codes = codes or languages(artifact)
    with Progress(console, "export") as progress:
        for done, code in enumerate(codes):
            progress.update(done, len(codes), "languages", code)
            vectors = WordVectors.load(artifact.location / FOLDER / code)
            file = Location.parse(out) / f"{code}.{ending}"
            write_vectors(vectors, file)
            size = f"{len(vectors):,} words, {vectors.dimension} dimensions"
            console.print(f"{code}: {size} → {file}", highlight=False, markup=False, soft_wrap=True)
        progress.update(len(codes), len(codes), "languages")


def languages(artifact: Artifact) -> list[str]:
    """The languages that an artifact has vectors of, by its manifest."""
    parts = (name.split("/") for name in artifact.manifest["files"])
    return sorted({code for folder, code, *_ in (part for part in parts if len(part) > 2) if folder == FOLDER})


def _artifact(location: AnyPath) -> Artifact:
    artifact = Artifact.load(find_artifact(location))
    if artifact is None:
        raise ArtifactError(f"there is no artifact at {location}", "Name a folder under runs/extract or runs/align.")
    if not languages(artifact):
        problem = f"{location} has no vectors: it belongs to the stage {artifact.manifest['stage']}"
        raise ArtifactError(problem, "Name a folder under runs/extract or runs/align.")
    return artifact


def _check_languages(codes: Sequence[str], artifact: Artifact) -> None:
    available = languages(artifact)
    for code in codes:
        if code not in available:
            raise DataError(
                f"{artifact.location} has no vectors of language {code!r}", f"It has: {', '.join(available)}."
            )
