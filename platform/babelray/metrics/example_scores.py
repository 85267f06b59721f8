"""Which examples of a benchmark a system gets right, and whether two systems differ there by more than chance.

The predictions of a benchmark hold, by language, `example_scores`: the score of each example between 0 and 1; or two
directions that each have them, whose mean counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from babelray.metrics.significance import over_rows, paired_permutation

ExampleScores = dict[str, list[float]]
"""By language the score of each example."""


def example_scores_of(predictions: Mapping[str, Any], languages: Sequence[str]) -> ExampleScores:
    """The example scores of each language; empty if any language has none."""
    by_language = {code: _example_scores(predictions.get(code)) for code in languages}
    complete = {code: scores for code, scores in by_language.items() if scores}
    return complete if len(complete) == len(by_language) else {}


def _example_scores(answers: Any) -> list[float] | None:
    """Those of a language; of two directions the mean.

    >>> _example_scores({"to_hub": {"example_scores": [1, 0]}, "from_hub": {"example_scores": [1, 1]}})
    [1.0, 0.5]
    """
    if not isinstance(answers, Mapping):
        return None
    if "example_scores" in answers:
        return [float(score) for score in answers["example_scores"]]
    sides = [
        side["example_scores"] for side in answers.values() if isinstance(side, Mapping) and "example_scores" in side
    ]
    return [fmean(pair) for pair in zip(*sides, strict=True)] if sides else None


def p_value(first: ExampleScores, second: ExampleScores, code: str | None = None) -> float | None:
    """Of a paired permutation test for a language, or for the mean over languages; None if they cannot be paired."""
    if not first or not second or any(len(first[c]) != len(second[c]) for c in ([code] if code else first)):
        return None
    if code is not None:
        return paired_permutation(first[code], second[code]).p
    if len({len(scores) for scores in first.values()}) == 1:  # probably the same examples in every language
        return paired_permutation(over_rows(first), over_rows(second)).p
    return paired_permutation(first, second).p


def p_values(first: ExampleScores, second: ExampleScores) -> dict[str, float]:
    """By language, and under the empty name for the mean over languages."""
    values = {code or "": p_value(first, second, code) for code in (None, *first)}
    return {code: p for code, p in values.items() if p is not None}
