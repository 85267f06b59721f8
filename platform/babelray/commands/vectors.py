"""`babelray vectors`: the neighbours of a word, and export of static vectors to files for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from babelray.errors import ArtifactError, DataError
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import MANIFEST, Artifact
from babelray.storage.runs import find_artifact
from babelray.storage.writable import check_new_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from babelray.vectors.word_vectors import WordVectors

FOLDER = "vectors"


def show_neighbours(
    location: AnyPath, code: str, word: str, count: int, console: Console, to: AnyPath | None = None
) -> None:
    """Print the words whose vectors are nearest to that of a word, in its own language or in another.

    `code` is empty, and `to` a path, if the location is one file or folder of vectors.
    """
    from rich.table import Table
    from rich.text import Text

    from babelray.vectors.neighbours import neighbours

    sets = find_vectors(location)
    vectors = _load(location, sets, code, console)
    target = None
    if to is not None:
        target = _load(location, sets, str(to), console) if code else _load(to, find_vectors(to), "", console)
    table = Table("word", box=None, pad_edge=False)
    table.add_column("cosine", justify="right")
    for neighbour, cosine in neighbours(vectors, word, count, target):
        table.add_row(Text(neighbour), f"{cosine:.3f}")
    console.print(table)


def find_vectors(location: AnyPath) -> dict[str, Location]:
    """Sets of word vectors by name: an artifact's by language, a folder's by the names of its files; or one alone,
    which has no name.

    `babelray align --source … --out FOLDER` writes `source` and `target`, `babelray vectors export` one per language.
    """
    from babelray.vectors.formats import ENDINGS
    from babelray.vectors.word_vectors import VOCABULARY, WordVectors

    place = find_artifact(location)
    if place.is_file() or WordVectors.is_complete(place):
        return {"": place}
    if (place / MANIFEST).exists():
        return artifact_vectors(_artifact(place))
    if not place.exists():
        raise DataError(f"there is nothing at {location}", "Name a file or folder of vectors, or an artifact.")
    names = [name for name in place.files() if name.count("/") < 2]
    sets = {
        plain.removesuffix(ending): place / name
        for name in names
        for ending in ENDINGS
        if "/" not in name and (plain := name.removesuffix(".gz")).endswith(ending)
    }
    sets |= {name.split("/")[0]: place / name.split("/")[0] for name in names if name.endswith(f"/{VOCABULARY}")}
    if not sets:
        raise DataError(f"there are no vectors in {location}", f"Vectors are files that end in {', '.join(ENDINGS)}.")
    return sets


def _load(location: AnyPath, sets: Mapping[str, Location], name: str, console: Console) -> WordVectors:
    from babelray.commands.align_files import read_any

    if name not in sets:
        if "" in sets:
            raise DataError(f"{location} holds one set of vectors, without a language", "Give the word alone.")
        problem = (
            f"{location} has no vectors of language {name!r}" if name else f"{location} has several sets of vectors"
        )
        raise DataError(problem, f"It has: {', '.join(sorted(sets))}.")
    return read_any(sets[name], None, console)


def export(location: AnyPath, out: AnyPath, codes: Sequence[str], ending: str, console: Console) -> None:
    """Write `<language>.<ending>` for these languages, or for all if none are named.

    The result of `babelray align` of two files has the languages `source` and `target`.
    """
    from babelray.cluster.progress import Progress
    from babelray.vectors.formats import write_vectors

    place = find_artifact(location)
    sets = find_vectors(place) if _is_result_of_two_files(place) else artifact_vectors(_artifact(location))
    _check_languages(codes, sets, place)
    codes = codes or sorted(sets)
    for code in codes:
        check_new_file(Location.parse(out) / f"{code}.{ending}")
    with Progress(console, "export") as progress:
        for done, code in enumerate(codes):
            progress.update(done, len(codes), "languages", code)
            vectors = _load(location, sets, code, console)
            file = Location.parse(out) / f"{code}.{ending}"
            write_vectors(vectors, file)
            size = f"{len(vectors):,} words, {vectors.dimension} dimensions"
            console.print(f"{code}: {size} → {file}", highlight=False, markup=False, soft_wrap=True)
        progress.update(len(codes), len(codes), "languages")


def artifact_vectors(artifact: Artifact) -> dict[str, Location]:
    """The folders of an artifact's vectors by language."""
    return {code: artifact.location / FOLDER / code for code in languages(artifact)}


def languages(artifact: Artifact) -> list[str]:
    """The languages that an artifact has vectors of, by its manifest."""
    parts = (name.split("/") for name in artifact.manifest["files"])
    return sorted({code for folder, code, *_ in (part for part in parts if len(part) > 2) if folder == FOLDER})


def _artifact(location: AnyPath) -> Artifact:
    place = find_artifact(location)
    artifact = Artifact.load(place) if (place / MANIFEST).exists() else None
    if artifact is None:
        problem = (
            f"{location} is no artifact: it has no {MANIFEST}" if place.exists() else f"there is nothing at {location}"
        )
        raise ArtifactError(problem, "Name a folder under runs/extract or runs/align, or one of `align --source`.")
    if not languages(artifact):
        problem = f"{location} has no vectors: it belongs to the stage {artifact.manifest['stage']}"
        raise ArtifactError(problem, "Name a folder under runs/extract or runs/align.")
    return artifact


def _check_languages(codes: Sequence[str], sets: Mapping[str, Location], place: Location) -> None:
    for code in codes:
        if code not in sets:
            raise DataError(f"{place} has no vectors of language {code!r}", f"It has: {', '.join(sorted(sets))}.")


def _is_result_of_two_files(place: Location) -> bool:
    """Whether `babelray align --source … --target …` or `Alignment.save` wrote this folder."""
    return all((place / name).exists() for name in ("scores.json", "mapping/source", "mapping/target"))
