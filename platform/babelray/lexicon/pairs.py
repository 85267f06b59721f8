"""Translation pairs with the hub, words and sentences, with training and test splits that share no item."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from babelray.errors import DataError
from babelray.lexicon.read import Problems, Translation, read_translations, translation_files
from babelray.lexicon.shift import find_shift
from babelray.storage import AnyPath, Location
from babelray.storage.tables import read_table, write_rows

if TYPE_CHECKING:
    from babelray.lexicon.config import DictionaryConfig, ParallelConfig, TranslationSource

Split = Literal["train", "test"]
SHARD = 100_000


@dataclass(frozen=True)
class Pair:
    """`source` is in the language, `target` in the hub."""

    source: str
    target: str
    split: Split


def is_held_out(position: int, share: float) -> bool:
    """Whether the item at a position is held out: evenly spread, so that every topic is covered.

    >>> [i for i in range(10) if is_held_out(i, 0.2)]
    [4, 9]
    """
    return int((position + 1) * share + 1e-9) > int(position * share + 1e-9)


def dictionary_pairs(
    sources: Sequence[DictionaryConfig],
    code: str,
    hub: str,
    problems: Problems,
    check: Callable[[DictionaryConfig, Sequence[tuple[str, str]]], None] = lambda config, words: None,
) -> tuple[list[Pair], Counter[str]]:
    """Word pairs of all sources, each once. Train and test share no word, on either side.

    `check` is called with the words of each source, and may raise an error.

    A word is held out with all its translations. A training pair that contains a test word is left out and counted,
    from whichever source it comes: the usual dictionaries overlap with the usual test sets.
    """
    splits: dict[tuple[str, str], Split] = {}
    for config in sources:
        words = [
            Translation(source, target, entry.group)
            for entry in read_checked(config, code, hub, problems)
            for source in _alternatives(entry.source, config)
            for target in _alternatives(entry.target, config)
        ]
        check(config, [(entry.source, entry.target) for entry in words])
        grouped = words if config.resolved_layout in ("aligned", "table") else [_by_source(word) for word in words]
        for entry, split in _split(grouped, config):
            key = (entry.source, entry.target)
            splits[key] = "test" if split == "test" else splits.get(key, split)
    return _remove_leaks([Pair(*key, split) for key, split in splits.items()])


def read_checked(config: TranslationSource, code: str, hub: str, problems: Problems) -> list[Translation]:
    """The translations of a source; an error if no line is usable, or if lines stand beside the wrong ones."""
    own = Problems()
    try:
        entries = list(read_translations(config, code, hub, own))
    finally:  # a file in another encoding may be found damaged in other ways
        own.check_encoding()
    if own.count and not entries:
        raise DataError("; ".join(own.summaries), f"Check the layout, which is read as {config.resolved_layout!r}.")
    if shift := find_shift([(entry.source, entry.target) for entry in entries]):
        files = " and ".join(map(str, translation_files(config, code, hub)))
        raise DataError(f"{files}: {shift}", "Check where a line is missing or added in one of the two languages.")
    problems.merge(own)
    return entries


def _by_source(entry: Translation) -> Translation:
    return Translation(entry.source, entry.target, entry.source)


def _alternatives(cell: str, config: DictionaryConfig) -> list[str]:
    cell = cell.lower() if config.lowercase else cell
    parts = cell.split("|") if config.resolved_layout == "aligned" else [cell]
    return [" ".join(part.split()) for part in parts if part.strip()]


def parallel_pairs(
    sources: Sequence[ParallelConfig], code: str, hub: str, problems: Problems
) -> tuple[list[Pair], Counter[str]]:
    """Sentence pairs of all sources, each once; whole paragraphs or chapters are held out."""
    splits: dict[tuple[str, str], Split] = {}
    counts: Counter[str] = Counter()
    for config in sources:
        entries = read_checked(config, code, hub, problems)
        similar = _filter_by_length(entries, config.max_ratio)
        counts["dropped: unlike lengths"] += len(entries) - len(similar)
        for entry, split in _split(_group_lines(similar, config), config):
            key = (entry.source, entry.target)
            splits[key] = "test" if split == "test" else splits.get(key, split)
    pairs, leaks = _remove_leaks([Pair(*key, split) for key, split in splits.items()])
    return pairs, counts + leaks


def _group_lines(entries: list[Translation], config: TranslationSource) -> list[Translation]:
    """If nothing marks paragraphs, ten consecutive lines count as one, since neighbours are often alike."""
    if config.resolved_layout == "keyed" or any(a.group == b.group for a, b in pairwise(entries)):
        return entries
    return [Translation(entry.source, entry.target, str(i // 10)) for i, entry in enumerate(entries)]


def _filter_by_length(entries: list[Translation], max_ratio: float) -> list[Translation]:
    """Drop pairs whose length ratio is far from the usual one of these two languages."""
    if not entries:
        return []
    usual = statistics.median(len(entry.source) / len(entry.target) for entry in entries[:SHARD])
    return [e for e in entries if 1 / max_ratio <= len(e.source) / len(e.target) / usual <= max_ratio]


def _split(entries: Iterable[Translation], config: TranslationSource) -> list[tuple[Translation, Split]]:
    if config.split != "held-out":
        return [(entry, config.split) for entry in entries]
    position: dict[str, int] = {}
    return [
        (entry, "test" if is_held_out(position.setdefault(entry.group, len(position)), config.held_out) else "train")
        for entry in entries
    ]


def _remove_leaks(pairs: list[Pair]) -> tuple[list[Pair], Counter[str]]:
    """Leave out training pairs that share a side with a test pair."""
    sources = {pair.source for pair in pairs if pair.split == "test"}
    targets = {pair.target for pair in pairs if pair.split == "test"}
    rest = [p for p in pairs if p.split == "test" or (p.source not in sources and p.target not in targets)]
    counts: Counter[str] = Counter(pair.split for pair in rest)
    counts["dropped: shared with test"] = len(pairs) - len(rest)
    return rest, counts


def write_pairs(folder: AnyPath, pairs: Sequence[Pair]) -> None:
    """Write pairs in shards."""
    for number, start in enumerate(range(0, max(1, len(pairs)), SHARD)):
        rows: Iterable[dict[str, Any]] = (vars(pair) for pair in pairs[start : start + SHARD])
        write_rows(Location.parse(folder) / f"{number:05}.parquet", rows, ["source", "target", "split"])


def read_pairs(folder: AnyPath, split: Split) -> list[Pair]:
    """The pairs of one split; none if the folder does not exist."""
    folder = Location.parse(folder)
    if not folder.exists():
        return []
    return [
        Pair(**row) for name in folder.files() for row in read_table(folder / name).to_pylist() if row["split"] == split
    ]


def write_induced(file: AnyPath, pairs: Sequence[tuple[str, str]], confidence: Sequence[float]) -> None:
    """Write an induced dictionary, `word<TAB>translation<TAB>confidence`, which recipes can read as a source."""
    rows = zip(pairs, confidence, strict=True)
    Location.parse(file).write_text("".join(f"{source}\t{target}\t{value:.4f}\n" for (source, target), value in rows))


def read_induced(file: AnyPath) -> list[tuple[str, str]]:
    """The pairs of an induced dictionary, in its order: the most confident first."""
    rows = [line.split("\t") for line in Location.parse(file).read_text().splitlines()]
    return [(source, target) for source, target, _ in rows]


def pivot_pairs(left: Iterable[tuple[str, str]], right: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Words of two languages that share a translation in the hub, each pair once.

    >>> pivot_pairs([("hond", "dog"), ("kat", "cat")], [("Hund", "dog"), ("Köter", "dog")])
    [('hond', 'Hund'), ('hond', 'Köter')]
    """
    words_of: dict[str, list[str]] = {}
    for word, translation in right:
        words_of.setdefault(translation, []).append(word)
    return list(dict.fromkeys((a, b) for a, translation in left for b in words_of.get(translation, [])))
