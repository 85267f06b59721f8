"""The entries of a dictionary that two vocabularies can use, with what a user should know about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from babelray.errors import DataError
from babelray.lexicon.coverage import Coverage, measure_coverage
from babelray.lexicon.read import Problems, read_columns
from babelray.lexicon.shift import find_shift
from babelray.storage import AnyPath, Location

if TYPE_CHECKING:
    Dictionary = AnyPath | Sequence[tuple[str, str]] | Mapping[str, str]
    """A file with two words per line, pairs of words, or a mapping of words to their translations."""

IDENTICAL = "identical"
"""The name of the dictionary of the words that are spelt alike."""


@dataclass(frozen=True)
class UsableDictionary:
    """The entries of a dictionary as they are read, usable or not, and how many of them are usable."""

    pairs: list[tuple[str, str]]
    coverage: Coverage
    skipped: Problems
    """The lines of its file that are no entries."""


def read_usable(
    dictionary: Dictionary, source: Collection[str], target: Collection[str], lowercase: bool = True
) -> UsableDictionary:
    """Read a dictionary of two vocabularies; an error if none is usable, or if it is plainly to be read otherwise."""
    if isinstance(dictionary, str | Path | Location):
        name, (written, skipped) = str(dictionary), read_word_pairs(dictionary)
    else:
        entries = list(dictionary.items()) if isinstance(dictionary, Mapping) else dictionary
        name, written, skipped = "the dictionary", _check_pairs(entries), Problems()
    coverage = measure_coverage(written, source, target, lowercase)
    coverage.check(name)
    if shift := find_shift(written):
        raise DataError(f"{name}: {shift}", "Check where a line is missing or added in one of the two languages.")
    return UsableDictionary(coverage.reading.words(written), coverage, skipped)


def identical_words(source: Collection[str], target: Collection[str]) -> list[tuple[str, str]]:
    """The words that are spelt alike in both vocabularies, as pairs; an error if there are none."""
    pairs = [(word, word) for word in source if word in target]
    if not pairs:
        raise DataError("no word is spelt alike in both vocabularies", "Give a dictionary, or none.")
    return pairs


def read_word_pairs(path: AnyPath) -> tuple[list[tuple[str, str]], Problems]:
    """The pairs of a file, `word<TAB>translation` or with a space between, as written; and its unusable lines."""
    location, problems = Location.parse(path), Problems()
    if not location.is_file() and not _is_pipe(location):
        remedy = "Name a text file with two words per line."
        if str(path).lower() == "none":
            remedy = "Leave out --dictionary (in Python: dictionary=None) to map without one."
        raise DataError(f"there is no dictionary at {path}", remedy)
    pairs = [(first, second) for _, first, second in read_columns(location, problems)]
    problems.check_encoding()
    if not pairs:
        why = "".join(f" ({summary})" for summary in problems.summaries)
        raise DataError(
            f"{path} holds no pairs of words{why}", "A line holds a word, a tab or space, and its translation."
        )
    return pairs, problems


def _is_pipe(location: Location) -> bool:
    """Whether this is what a shell puts for `<(command)`."""
    return not location.is_s3 and not location.is_hub and location.path.is_fifo()


def _check_pairs(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    checked = []
    for number, pair in enumerate(pairs, start=1):
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(word, str) and word for word in pair):
            raise DataError(f"entry {number} of the dictionary, {pair!r}, is not a pair of words", "Give (word, word).")
        checked.append((pair[0], pair[1]))
    if not checked:
        raise DataError("the dictionary is empty", "Give pairs of words, or no dictionary.")
    return checked
