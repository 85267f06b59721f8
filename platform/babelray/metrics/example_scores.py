"""Which examples of a benchmark a system gets right, and whether two systems differ there by more than chance.

The predictions of a benchmark hold, by language, `example_scores`: the score of each example between 0 and 1; or two
directions that each have them, whose mean counts. Where examples repeat, `clusters` holds the number of each example's
cluster: repetitions are not independent, so that a cluster counts as one example, with the mean unchanged.

With clusters c = 1 … C of m_c of the N examples, whose scores x have the mean x̄, the score of a cluster is

    C/N Σ_{i∈c} x_i                  in tests: swapping two systems swaps all examples of a cluster
    x̄ + C/N Σ_{i∈c} (x_i − x̄)        in intervals: linearised, so that the sizes of clusters add no variance
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from statistics import fmean
from typing import Any

from babelray.metrics.significance import over_rows, paired_permutation

ExampleScores = dict[str, list[float]]
"""By language the score of each example."""


def example_scores_of(
    predictions: Mapping[str, Any], languages: Sequence[str], linearised: bool = False
) -> ExampleScores:
    """The example scores of each language, one per cluster where examples repeat; empty if any language has none.

    `linearised`: as intervals need them, not as tests do.
    """
    by_language = {code: _example_scores(predictions.get(code), linearised) for code in languages}
    complete = {code: scores for code, scores in by_language.items() if scores}
    return complete if len(complete) == len(by_language) else {}


def _example_scores(answers: Any, linearised: bool = False) -> list[float] | None:
    """Those of a language; of two directions the mean.

    >>> _example_scores({"to_hub": {"example_scores": [1, 0]}, "from_hub": {"example_scores": [1, 1]}})
    [1.0, 0.5]
    """
    if not isinstance(answers, Mapping):
        return None
    sides = [answers] if "example_scores" in answers else [*answers.values()]
    columns = [side["example_scores"] for side in sides if isinstance(side, Mapping) and "example_scores" in side]
    scores = [fmean(values) for values in zip(*columns, strict=True)]
    if not scores:
        return None
    return _by_cluster(scores, answers["clusters"], linearised) if "clusters" in answers else scores


def _by_cluster(scores: Sequence[float], clusters: Sequence[int], linearised: bool) -> list[float]:
    """One score per cluster, in the order in which clusters occur first.

    >>> _by_cluster([1, 1, 0, 1], [0, 0, 2, 3], linearised=False)
    [1.5, 0.0, 0.75]
    >>> _by_cluster([1, 1, 1, 1], [0, 0, 2, 3], linearised=True)
    [1.0, 1.0, 1.0]
    """
    centre = fmean(scores) if linearised else 0.0
    sums = dict(zip(clusters, repeat(0.0)))
    for score, cluster in zip(scores, clusters, strict=True):
        sums[cluster] += score - centre
    return [centre + total * len(sums) / len(scores) for total in sums.values()]


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
