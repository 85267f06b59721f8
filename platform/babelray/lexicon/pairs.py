"""Translation pairs with the hub: sentences and words, each with a split that never leaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from babelray.errors import DataError
from babelray.text.corpus import read_table, source_files, write_table

if TYPE_CHECKING:
    from babelray.storage import Place

Split = Literal["train", "test"]
_COLUMNS = {"source": "string", "target": "string", "split": "string"}


@dataclass(frozen=True)
class Pair:
    """`source` is in the language, `target` in the hub."""

    source: str
    target: str
    split: Split


def is_held_out(position: int, share: float) -> bool:
    """Whether the item at a position is held out: evenly spread, so that every topic has its part.

    >>> [i for i in range(10) if is_held_out(i, 0.2)]
    [4, 9]
    """
    return int((position + 1) * share + 1e-9) > int(position * share + 1e-9)


def parallel_pairs(pattern: str, code: str, hub: str, share: float) -> list[Pair]:
    """Sentence pairs from two files aligned by line; whole paragraphs are held out."""
    source, target = _aligned(pattern, code, hub)
    pairs: list[Pair] = []
    paragraph = 0
    for left, right in zip(source, target, strict=True):
        if not left:
            paragraph += 1
        else:
            pairs.append(Pair(left, right, "test" if is_held_out(paragraph, share) else "train"))
    return pairs


def dictionary_pairs(pattern: str, code: str, hub: str, share: float) -> list[Pair]:
    """Word pairs from two files aligned by line, `a | b` being alternatives; lower case.

    A source word that is held out in one entry is held out in all of them, so that the two splits never
    share a source word.
    """
    source, target = _aligned(pattern, code, hub)
    entries = [
        (left, right, is_held_out(number, share))
        for number, (lefts, rights) in enumerate(zip(source, target, strict=True))
        for left in _alternatives(lefts)
        for right in _alternatives(rights)
    ]
    tested = {left for left, _, held_out in entries if held_out}
    pairs = [Pair(left, right, "test" if left in tested else "train") for left, right, _ in entries]
    return list(dict.fromkeys(pairs))


def _alternatives(entry: str) -> list[str]:
    return [word for part in entry.lower().split("|") if (word := part.strip())]


def _aligned(pattern: str, code: str, hub: str) -> tuple[list[str], list[str]]:
    import unicodedata

    names, columns = [], []
    for language in (code, hub):
        files = source_files(pattern, language)
        names.append(", ".join(map(str, files)))
        text = "".join(unicodedata.normalize("NFC", file.read_text()) for file in files)
        columns.append([line.strip() for line in text.splitlines()])
    source, target = columns
    if len(source) != len(target):
        problem = f"{names[0]} has {len(source)} lines, {names[1]} has {len(target)}"
        raise DataError(problem, "Files aligned by line must have the same number of lines.")
    for number, (left, right) in enumerate(zip(source, target, strict=True), start=1):
        if bool(left) != bool(right):
            empty = names[1] if left else names[0]
            raise DataError(f"{empty}, line {number}: empty here but not in the other language")
    return source, target


def write_pairs(place: Place, pairs: list[Pair]) -> None:
    write_table(place, [vars(pair) for pair in pairs], _COLUMNS)


def read_pairs(place: Place, split: Split) -> list[Pair]:
    """The pairs of one split."""
    return [Pair(**row) for row in read_table(place).to_pylist() if row["split"] == split]
