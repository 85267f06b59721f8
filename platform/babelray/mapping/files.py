"""Two files of word vectors mapped into one space, and judged; no recipe, no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from babelray.errors import DataError
from babelray.lexicon.read import Problems, read_columns
from babelray.storage import Place
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.mapping.config import MappingConfig

IDENTICAL = "identical"
"""What stands for a dictionary of the words that are spelt alike."""


def align_files(
    source: str,
    target: str,
    out: str,
    config: MappingConfig,
    console: Console,
    dictionary: str | None = None,
    test: str | None = None,
    limit: int = 200_000,
    seed: int = 1,
) -> None:
    """Map two vocabularies; write both and their mappings; print how well they translate a test dictionary."""
    from babelray.mapping.build import map_both
    from babelray.mapping.collapse import ADVICE, examine
    from babelray.mapping.dictionary import positions

    folder = Place.parse(out)
    if (folder / "scores.json").exists():
        raise DataError(f"{out} holds the result of an earlier run", "Name another folder, or delete it.")
    left, right = read_any(source, limit), read_any(target, limit)
    pairs = _dictionary(dictionary, left, right, console)
    tested = _pairs(test, console) if test else []
    with console.status("mapping") as status:
        say = lambda text: status.update(f"mapping: {text}")  # noqa: E731
        where = None if pairs is None else positions(left, right, pairs)
        mappings = map_both(left.matrix, right.matrix, where, config, seed, say)
        mapped = tuple(s.with_matrix(m.transform(s.matrix)) for s, m in zip((left, right), mappings, strict=True))
        scores: dict[str, Any] = {"method": config.method, "pairs": None if where is None else len(where[0])}
        if pairs is None:
            status.update("comparing with a random mapping")
            health = examine(mapped[0].matrix, mapped[1].matrix, seed=seed)
            scores |= {"collapsed": health.collapsed, "health": str(health)}
            console.print(("[red]collapsed:[/] " if health.collapsed else "") + str(health), highlight=False)
            if health.collapsed:
                console.print(ADVICE, highlight=False)
        status.update("writing")
        for name, path, side, mapping in zip(("source", "target"), (source, target), mapped, mappings, strict=True):
            mapping.save(folder / "mapping" / name)
            _write(side, path, folder, name)
    if tested:
        scores["bli"] = show_bli(mapped[0], mapped[1], tested, console)
    (folder / "scores.json").write_json(scores)
    console.print(f"written: {folder}", highlight=False, soft_wrap=True)


def bli_of_files(
    source: str, target: str, test: str, console: Console, limit: int = 200_000, inverted_softmax: float = 0.0
) -> None:
    """Print how well two vocabularies in one space translate a test dictionary."""
    left, right = read_any(source, limit), read_any(target, limit)
    show_bli(left, right, _pairs(test, console), console, inverted_softmax)


def read_any(path: str, limit: int) -> WordVectors:
    """Vectors from a file in one of the formats of the field, or from a folder of ours."""
    from babelray.vectors.formats import read_vectors

    place = Place.parse(path)
    if WordVectors.is_complete(place):
        vectors = WordVectors.load(place)
        return WordVectors(vectors.words[:limit], vectors.matrix[:limit], vectors.counts[:limit])
    if not place.is_file():
        raise DataError(f"there are no vectors at {path}", "Name a .vec, .txt or .bin file, or a folder of vectors.")
    return read_vectors(place, limit)


def show_bli(
    source: WordVectors,
    target: WordVectors,
    pairs: list[tuple[str, str]],
    console: Console,
    inverted_softmax: float = 0.0,
) -> dict[str, Any]:
    """Measure and print."""
    from rich.table import Table

    from babelray.evaluation.bli import RANKS, bli

    scores = bli(source, target, pairs, inverted_softmax=inverted_softmax)
    if not scores["words"]:
        raise DataError("no pair of the test dictionary has both words in the vectors", "Check that the sides fit.")
    table = Table(title=f"{scores['words']:,} words asked, {scores['coverage']:.1%} of the test dictionary")
    table.add_column("retrieval")
    for name in [*(f"P@{n}" for n in RANKS), "MRR"]:
        table.add_column(name, justify="right")
    rows = {"nearest neighbour": scores["nn"], "inverted softmax": scores.get("isf"), "CSLS": scores}
    for name, row in ((name, row) for name, row in rows.items() if row):
        table.add_row(name, *(f"{100 * row[key]:.1f}" for key in [*(f"p{n}" for n in RANKS), "mrr"]))
    console.print(table)
    return scores


def _dictionary(
    path: str | None, source: WordVectors, target: WordVectors, console: Console
) -> list[tuple[str, str]] | None:
    if path is None:
        return None
    if path == IDENTICAL:
        return [(word, word) for word in source.words if word in target.position]
    return _pairs(path, console)


def _pairs(path: str, console: Console) -> list[tuple[str, str]]:
    """The pairs of a file, `word<TAB>translation` or with a space between."""
    place, problems = Place.parse(path), Problems()
    if not place.is_file():
        raise DataError(f"there is no dictionary at {path}", "Name a text file with two words a line.")
    pairs = list(dict.fromkeys((first, second) for _, first, second in read_columns(place, problems)))
    if not pairs:
        first = f" ({problems.first[0]})" if problems.first else ""
        raise DataError(f"{path} holds no pairs of words{first}", "A line holds a word, a tab or space, a translation.")
    if problems.count:
        console.print(f"{problems.count} lines passed over; the first: {problems.first[0]}", highlight=False)
    return pairs


def _write(vectors: WordVectors, path: str, folder: Place, name: str) -> None:
    """In the format that the vectors came in."""
    from babelray.vectors.formats import ENDINGS, write_vectors

    came = Place.parse(path).name
    plain = came.removesuffix(".gz")
    ending = next((ending for ending in ENDINGS if plain.endswith(ending)), None)
    if ending is None:
        vectors.save(folder / name)
    else:
        write_vectors(vectors, folder / f"{name}{ending}{came.removeprefix(plain)}")
