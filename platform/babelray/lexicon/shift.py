"""Detects translations that are shifted against each other: line n beside the translation of line n + 1.

One missing line makes everything after it wrong, and nothing looks wrong: all words are known. But names, numbers,
punctuation and related words are spelt alike in both languages, also across scripts in sentences. With the bigrams of
characters B(x) of a text without accents, and a shift k of up to 3 lines,

    s(x, y) = 2 |B(x) ∩ B(y)| / (|B(x)| + |B(y)|)          d_i = s(x_i, y_{i+k}) − s(x_i, y_i)

the mean of d is negative where lines translate each other, and positive where they translate those at a distance of k.
A shift is reported if the mean lies five standard errors above 0 in a block of entries. Words of languages without
common spellings give no evidence.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHIFTS = (1, -1, 2, -2, 3, -3)
BLOCK, BLOCKS = 1000, 10
"""Entries of a block, and the blocks that are looked at, evenly over the file."""
LEAST = 30
"""Fewer entries are no evidence."""
STANDARD_ERRORS = 5.0


@dataclass(frozen=True)
class Shift:
    """Where entries, counted from 1, translate those at a distance."""

    start: int
    end: int
    lines: int

    def __str__(self) -> str:
        distance = (
            f"{abs(self.lines)} line{'s' if abs(self.lines) > 1 else ''} {'later' if self.lines > 0 else 'earlier'}"
        )
        return f"the entries are shifted: from {self.start:,} to {self.end:,} the translation stands {distance}"


def find_shift(pairs: Sequence[tuple[str, str]]) -> Shift | None:
    """The first block of entries that is shifted; None if there is no evidence of any.

    >>> words = [f"name{i * i}" for i in range(100)]
    >>> str(find_shift(list(zip(words, words[1:]))))
    'the entries are shifted: from 1 to 99 the translation stands 1 line earlier'
    """
    count = max(1, -(-len(pairs) // BLOCK))
    chosen = range(count) if count <= BLOCKS else sorted({round(i * (count - 1) / (BLOCKS - 1)) for i in range(BLOCKS)})
    for number in chosen:
        start = min(number * BLOCK, max(0, len(pairs) - BLOCK))
        block = pairs[start : start + BLOCK]
        if lines := _shift_of(block):
            return Shift(start + 1, start + len(block), lines)
    return None


def _shift_of(pairs: Sequence[tuple[str, str]]) -> int:
    """The shift of a block with the most evidence; 0 if there is none."""
    count = len(pairs)
    if count < LEAST:
        return 0
    left, right = ([_bigrams(pair[side]) for pair in pairs] for side in (0, 1))
    aligned = np.array([_similarity(a, b) for a, b in zip(left, right, strict=True)])
    evidence: dict[int, float] = {}
    for lines in SHIFTS:
        rows = range(max(0, -lines), min(count, count - lines))
        gain = np.array([_similarity(left[i], right[i + lines]) - aligned[i] for i in rows])
        evidence[lines] = float(gain.mean() / max(1e-9, gain.std() / np.sqrt(len(gain))))
    best = max(evidence, key=evidence.__getitem__)
    return best if evidence[best] > STANDARD_ERRORS else 0


def _bigrams(text: str) -> frozenset[str]:
    decomposed = unicodedata.normalize("NFKD", f" {text.lower()} ")
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return frozenset(letters[i : i + 2] for i in range(len(letters) - 1))


def _similarity(first: frozenset[str], second: frozenset[str]) -> float:
    return 2 * len(first & second) / max(1, len(first) + len(second))
