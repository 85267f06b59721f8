"""Two files of word vectors mapped into one space, and scored; no recipe, no cluster."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from babelray.commands.options import errors
from babelray.errors import INTERRUPTED, DataError
from babelray.lexicon.usable import IDENTICAL, identical_words, read_usable
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import partial_of
from babelray.storage.writable import check_writable
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.mapping.collapse import Health
    from babelray.mapping.method import MappingMethod

CHECKPOINT = "checkpoint.safetensors"


def configure_method(
    name: str, overrides: Sequence[str], dictionary: AnyPath | None, self_learning: bool | None = None
) -> MappingMethod:
    """A mapping method for two files, with dotted overrides such as `cutoff=10000`; an error for an unknown one."""
    from babelray.api import alignment

    settings = {} if self_learning is None else {"self_learning": self_learning}
    return alignment.configure_method(name, settings, dictionary, overrides)


def align_files(
    source: AnyPath,
    target: AnyPath,
    out: AnyPath,
    method: MappingMethod,
    console: Console,
    dictionary: AnyPath | None = None,
    test: AnyPath | None = None,
    limit: int = 200_000,
    seed: int = 1,
    lowercase: bool = True,
) -> None:
    """Map two vocabularies; write both and their mappings; print how well they translate a test dictionary."""
    from babelray.api.alignment import describe_few_pairs, describe_overlap
    from babelray.api.progress import status
    from babelray.mapping.vocabularies import map_vocabularies

    folder = Location.parse(out)
    if (folder / "scores.json").exists():
        raise DataError(f"{out} holds the result of an earlier run", "Name another folder, or delete it.")
    if folder.exists() and folder.files():
        raise DataError(f"{out} holds other files", "Name another folder, or delete it.")
    check_writable(folder, "Name another folder with --out.")  # before a mapping that may take long
    partial = partial_of(folder)  # nothing half-written is ever at `out`
    left, right = (read_any(path, limit, console) for path in (source, target))
    pairs = _dictionary(dictionary, left, right, lowercase, console)
    test_pairs = read_usable_pairs(test, "test", left, right, lowercase, console) if test else []
    training_words = {word for word, _ in pairs} if pairs and dictionary != IDENTICAL else set()
    if overlap := describe_overlap(training_words, test_pairs):
        print_warning(f"test: {overlap}", console)
    with resumable(method), status(console, "mapping") as show:
        notify = lambda text: show(f"mapping: {text}")  # noqa: E731
        mapped = map_vocabularies(left, right, pairs, method, seed, notify, partial / CHECKPOINT)
        scores: dict[str, Any] = {"method": method.method, "pairs": mapped.pairs}
        if few := describe_few_pairs(mapped.pairs, left.dimension, method):
            print_warning(f"dictionary: {few}", console)
        if mapped.health:
            scores |= {"collapsed": mapped.health.collapsed, "health": str(mapped.health)}
            _print_health(mapped.health, console)
        show("writing")
        for name in partial.files():  # of an earlier attempt
            if name != CHECKPOINT:
                (partial / name).delete()
        sides = zip(
            ("source", "target"), (source, target), (mapped.source, mapped.target), mapped.mappings, strict=True
        )
        for name, path, side, mapping in sides:
            mapping.save(partial / "mapping" / name)
            _write(side, path, partial, name)
    if test_pairs:
        scores["bli"] = print_bli(mapped.source, mapped.target, test_pairs, console)
    (partial / CHECKPOINT).delete()
    (partial / "scores.json").write_json(scores)
    partial.move_to(folder, last="scores.json")
    console.print(f"written: {folder}", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def resumable(method: MappingMethod) -> Iterator[None]:
    """Say on Ctrl-C whether the same command resumes or starts over."""
    try:
        yield
    except KeyboardInterrupt:
        next_time = "resumes from the last checkpoint" if method.resumable else f"starts over: {method.method} has none"
        errors.print(f"stopped; the same command {next_time}", highlight=False)
        sys.exit(INTERRUPTED)


def bli_of_files(
    source: AnyPath,
    target: AnyPath,
    test: AnyPath,
    console: Console,
    limit: int = 200_000,
    inverted_softmax: float = 0.0,
    lowercase: bool = True,
) -> None:
    """Print how well two vocabularies in one space translate a test dictionary."""
    left, right = (read_any(path, limit, console) for path in (source, target))
    pairs = read_usable_pairs(test, "test", left, right, lowercase, console)
    print_bli(left, right, pairs, console, inverted_softmax)


def read_any(path: AnyPath, limit: int | None, console: Console) -> WordVectors:
    """Vectors from a file in one of the formats of the field, or from a folder of an artifact."""
    from babelray.vectors.load import load_vectors

    with printed_warnings(console):
        return load_vectors(path, limit=limit)


def print_bli(
    source: WordVectors,
    target: WordVectors,
    pairs: list[tuple[str, str]],
    console: Console,
    inverted_softmax: float = 0.0,
) -> dict[str, Any]:
    """Measure and print."""
    from babelray.api.alignment import BliScores
    from babelray.commands.summary import print_table
    from babelray.metrics.bli import bli

    scores = bli(source, target, pairs, inverted_softmax=inverted_softmax)
    if not scores["words"]:
        raise DataError(
            "no pair of the test dictionary has both words in the vectors",
            "Check that its columns are in the order of --source and --target.",
        )
    print_table(BliScores(scores).table(), console)
    return scores


def _dictionary(
    path: AnyPath | None, source: WordVectors, target: WordVectors, lowercase: bool, console: Console
) -> list[tuple[str, str]] | None:
    if path is None:
        return None
    if path != IDENTICAL:
        return read_usable_pairs(path, "dictionary", source, target, lowercase, console)
    pairs = identical_words(source.position, target.position)
    console.print(f"dictionary: {len(pairs):,} words are spelt alike", highlight=False)
    return pairs


def read_usable_pairs(
    path: AnyPath, role: str, source: WordVectors, target: WordVectors, lowercase: bool, console: Console
) -> list[tuple[str, str]]:
    """The entries of a dictionary of two vocabularies; prints how many are usable, and what would make more of them."""
    usable = read_usable(path, source.position, target.position, lowercase)
    for summary in usable.skipped.summaries:
        print_warning(summary, console)
    console.print(f"{role}: {usable.coverage}", highlight=False, soft_wrap=True)
    for warning in usable.coverage.warnings:
        print_warning(f"{role}: {warning}", console)
    return usable.pairs


def print_warning(text: str, console: Console) -> None:
    """Print what makes a result doubtful."""
    from rich.markup import escape

    console.print(f"[yellow]warning:[/] {escape(text)}", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def printed_warnings(console: Console) -> Iterator[None]:
    """Print the warnings that the library issues in the block, each once, without lines of code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught if warning.category is UserWarning):
        print_warning(text, console)


def _print_health(health: Health, console: Console) -> None:
    from babelray.mapping.collapse import ADVICE

    console.print(("[red]collapsed:[/] " if health.collapsed else "") + str(health), highlight=False)
    if health.collapsed:
        console.print(ADVICE, highlight=False)


def _write(vectors: WordVectors, path: AnyPath, folder: Location, name: str) -> None:
    """In the format of the input."""
    from babelray.vectors.formats import ENDINGS, write_vectors

    name_of_input = Location.parse(path).name
    plain = name_of_input.removesuffix(".gz")
    ending = next((ending for ending in ENDINGS if plain.endswith(ending)), None)
    if ending is None:
        vectors.save(folder / name)
    else:
        write_vectors(vectors, folder / f"{name}{ending}{name_of_input.removeprefix(plain)}")
