"""Which sentences stay: each text once, and of those at most so many, chosen by hash.

The n distinct keys that are smallest make the sample. Since a key is a hash of seed and text, that is a uniform
sample which depends neither on the order nor on the number of pieces that the text came in. Of equal sentences
the first one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

Keys = Callable[[], Iterable[np.ndarray]]
ROWS_PER_PASS = 8_000_000


def choose(
    pieces: Sequence[Keys], rows: int, limit: int | None, rows_per_pass: int = ROWS_PER_PASS
) -> tuple[list[np.ndarray], int]:
    """The rows to keep of each piece, rising, and the number of distinct keys in all.

    `pieces[i]()` gives the keys (uint64) of a piece in blocks, and may be asked for more than once: memory holds the
    keys of one range at a time, and there are as many ranges as it takes to have about `rows_per_pass` in each.
    """
    ranges = max(1, -(-rows // rows_per_pass))
    bounds = [(2**64 * i) // ranges for i in range(ranges + 1)]
    chosen: list[list[np.ndarray]] = [[] for _ in pieces]
    distinct, left = 0, limit
    for low, high in pairwise(bounds):
        keys, origin, row = _in_range(pieces, low, high)
        # Keys come in order of piece and row, and `unique` points at the first of equal ones.
        _, first = np.unique(keys, return_index=True)
        distinct += len(first)
        if left is not None:
            first = first[:left]
            left -= len(first)
        for i in np.unique(origin[first]):
            chosen[i].append(row[first[origin[first] == i]])
    return [np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64) for parts in chosen], distinct


def _in_range(pieces: Sequence[Keys], low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keys, origin, row = [np.empty(0, np.uint64)], [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for number, blocks in enumerate(pieces):
        start = 0
        for block in blocks():
            # `high` may be 2**64, which no uint64 can hold: compare with the largest key instead.
            inside = np.flatnonzero((block >= np.uint64(low)) & (block <= np.uint64(high - 1)))
            keys.append(block[inside])
            origin.append(np.full(len(inside), number, np.int32))
            row.append(inside + start)
            start += len(block)
    return np.concatenate(keys), np.concatenate(origin), np.concatenate(row)
