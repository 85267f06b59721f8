"""Selection of sentences: each text once, and of those a sample of limited size, by hash.

The sample has the n smallest distinct keys. Since a key is a hash of seed and text, that is a uniform sample, which
depends neither on the order nor on the number of pieces of the text. Of equal sentences the first one is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

Keys = Callable[[], Iterable[np.ndarray]]
ROWS_PER_PASS = 8_000_000


def select_rows(
    pieces: Sequence[Keys], rows: int, limit: int | None, rows_per_pass: int = ROWS_PER_PASS
) -> tuple[list[np.ndarray], int]:
    """The selected rows of each piece, ascending, and the number of distinct keys overall.

    `pieces[i]()` yields the keys (uint64) of a piece in blocks, and is called once per range of keys: memory holds the
    keys of one range at a time, and the number of ranges is such that each has about `rows_per_pass` keys.
    """
    ranges = max(1, -(-rows // rows_per_pass))
    bounds = [(2**64 * i) // ranges for i in range(ranges + 1)]
    selected: list[list[np.ndarray]] = [[np.empty(0, np.int64)] for _ in pieces]
    distinct, left = 0, limit
    for low, high in pairwise(bounds):
        keys, row, ends = _keys_in_range(pieces, low, high)
        in_order = np.sort(keys)
        firsts = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1])) if len(keys) else in_order
        distinct += len(firsts)
        take = len(firsts) if left is None else min(left, len(firsts))
        left = None if left is None else left - take
        if take:
            position = _first_of_each(keys, in_order[firsts[take - 1]], unique=len(firsts) == len(keys))
            for own, part in zip(selected, np.split(position, np.searchsorted(position, ends[:-1])), strict=True):
                own.append(row[part])
    return [np.sort(np.concatenate(parts)) for parts in selected], distinct


def _first_of_each(keys: np.ndarray, largest: np.uint64, unique: bool) -> np.ndarray:
    """Ascending positions of the keys up to the largest, of equal ones the first."""
    position = np.flatnonzero(keys <= largest)
    if unique:
        return position
    _, first = np.unique(keys[position], return_index=True)  # points at the first of equal ones
    return np.sort(position[first])


def _keys_in_range(pieces: Sequence[Keys], low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys of a range in order of piece and row, their rows, and where each piece ends among them."""
    keys, rows, sizes = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], []
    for blocks in pieces:
        start = size = 0
        for block in blocks():
            # `high` may be 2**64, which no uint64 can hold: compare with the largest key instead.
            inside = np.flatnonzero((block >= np.uint64(low)) & (block <= np.uint64(high - 1)))
            keys.append(block[inside])
            rows.append(inside + start)
            start += len(block)
            size += len(inside)
        sizes.append(size)
    return np.concatenate(keys), np.concatenate(rows), np.cumsum(sizes)
