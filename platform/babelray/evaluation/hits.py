"""Which examples of a task an encoder gets right, and whether two encoders differ there by more than chance.

A task's predictions hold, by language, `hits`: the score of each example between 0 and 1; or two directions that each
have them, whose mean counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from babelray.evaluation.significance import over_rows, paired_permutation

Hits = dict[str, list[float]]
"""By language the score of each example."""


def hits_of(predictions: Mapping[str, Any], languages: Sequence[str]) -> Hits:
    """The hits of each language; empty if those of any are not known."""
    found = {code: _hits(predictions.get(code)) for code in languages}
    return {code: hits for code, hits in found.items() if hits is not None} if all(found.values()) else {}


def _hits(answers: Any) -> list[float] | None:
    """A language's; of two directions the mean.

    >>> _hits({"to_hub": {"hits": [1, 0]}, "from_hub": {"hits": [1, 1]}})
    [1.0, 0.5]
    """
    if not isinstance(answers, Mapping):
        return None
    if "hits" in answers:
        return [float(hit) for hit in answers["hits"]]
    sides = [side["hits"] for side in answers.values() if isinstance(side, Mapping) and "hits" in side]
    return [fmean(pair) for pair in zip(*sides, strict=True)] if sides else None


def p_value(first: Hits, second: Hits, code: str | None = None) -> float | None:
    """Of a paired permutation test for a language, or for the mean over languages; None if they cannot be paired."""
    if not first or not second or any(len(first[c]) != len(second[c]) for c in ([code] if code else first)):
        return None
    if code is not None:
        return paired_permutation(first[code], second[code]).p
    if len({len(hits) for hits in first.values()}) == 1:  # the same examples in every language, for all we know
        return paired_permutation(over_rows(first), over_rows(second)).p
    return paired_permutation(first, second).p


def p_values(first: Hits, second: Hits) -> dict[str, float]:
    """By language, and under the empty name for the mean over languages."""
    found = {code or "": p_value(first, second, code) for code in (None, *first)}
    return {code: p for code, p in found.items() if p is not None}
