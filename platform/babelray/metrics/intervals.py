"""How far a score would vary with other examples: 95 % confidence intervals.

A share of n examples has the interval of Wilson (1927), which stays within 0 and 1 and is right for few examples and
for shares near the ends, where the usual ± 1.96 standard errors are not:

    (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n)          z = 1.96

A mean m of scores between 0 and 1 that are no mere hits and misses (both directions of retrieval, several seeds) has
that of a share of n' = m (1 − m) / Var(m) examples, which is n for hits and misses. Like the significance tests,
intervals say nothing of other languages or of other seeds of the training.

The mean over L languages of scores s with intervals (l, u), which need not be means over examples, has by the method of
variance estimates recovery (Zou and Donner, 2008)

    (s̄ − √Σ (s − l)² / L,  s̄ + √Σ (u − s)² / L)          if languages have examples of their own
    (s̄ − Σ (s − l) / L,    s̄ + Σ (u − s) / L)            if they may share them, so that all err together
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from babelray.metrics.format import format_score
from babelray.metrics.significance import Doubles, over_rows

Interval = tuple[float, float]
LEVEL = 0.95
BLOCK = 100
"""Resamplings that are held at once."""
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


def share_interval(share: float, count: float) -> Interval:
    """Wilson's interval of a share of `count` examples.

    >>> [round(end, 3) for end in share_interval(0.5, 50)], [round(end, 3) for end in share_interval(1.0, 50)]
    ([0.366, 0.634], [0.929, 1.0])
    """
    if not count:
        return 0.0, 1.0
    centre = share + Z**2 / (2 * count)
    half = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    scale = 1 + Z**2 / count
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def probability_of_guessing(share: float, count: int, chance: float) -> float:
    """The probability that guesses, each right with probability `chance`, have at least this share of `count` right.

    >>> round(probability_of_guessing(0.75, 4, 0.5), 4)
    0.3125
    """
    from scipy.special import bdtrc

    hits = math.ceil(share * count - 1e-6)
    return float(bdtrc(hits - 1, count, chance)) if hits > 0 else 1.0


def correlation_interval(correlation: float, count: int) -> Interval:
    """Fisher's interval of Pearson's correlation of `count` pairs; approximately also that of rank correlations."""
    if count <= 3 or math.isnan(correlation):
        return -1.0, 1.0
    z, half = math.atanh(max(-1 + 1e-9, min(1 - 1e-9, correlation))), Z / math.sqrt(count - 3)
    return math.tanh(z - half), math.tanh(z + half)


def bootstrap_interval(
    counts_NK: npt.ArrayLike, score: Callable[[Doubles], Doubles], samples: int = 1000, seed: int = 1
) -> Interval:
    """Of a score that is a function of sums over examples, such as F1: the middle 95 % over resampled examples.

    `score` gives the scores (S,) of sums (S, K) over the examples.

    >>> low, high = bootstrap_interval([[1, 1], [0, 1]] * 50, lambda sums_SK: sums_SK[:, 0] / sums_SK[:, 1])
    >>> round(low, 1), round(high, 1)
    (0.4, 0.6)
    """
    counts = np.asarray(counts_NK, dtype=np.float64)
    generator = np.random.default_rng(seed)
    share = np.full(len(counts), 1 / len(counts))
    blocks = [generator.multinomial(len(counts), share, size=BLOCK) @ counts for _ in range(-(-samples // BLOCK))]
    low, high = np.quantile(score(np.concatenate(blocks)[:samples]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def mean_interval(scores: Sequence[float]) -> Interval:
    """Of the mean of scores between 0 and 1."""
    return _interval(float(np.mean(scores)), float(np.var(scores)) / len(scores), len(scores))


def intervals_of(example_scores: Mapping[str, Sequence[float]]) -> dict[str, Interval]:
    """By language, and under the empty name that of the mean over languages; none without scores.

    Languages with the same number of examples probably have the same ones (see `example_scores.p_value`).
    """
    if not example_scores:
        return {}
    counts = [len(scores) for scores in example_scores.values()]
    if len(set(counts)) == 1:
        overall = mean_interval(over_rows(example_scores).tolist())
    else:
        mean = float(np.mean([np.mean(scores) for scores in example_scores.values()]))
        variances = [np.var(scores) / len(scores) for scores in example_scores.values()]
        overall = _interval(mean, float(np.sum(variances)) / len(counts) ** 2, sum(counts))
    return {"": overall} | {code: mean_interval(scores) for code, scores in example_scores.items()}


def interval_of_mean(
    scores: Mapping[str, float], intervals: Mapping[str, Interval], independent: bool = True
) -> Interval:
    """Of the mean over languages, from the score and the interval of each.

    `independent`: whether languages have examples of their own; if not, the widest interval is given.

    >>> scores, intervals = {"de": 0.5, "fr": 0.7}, {"de": (0.4, 0.6), "fr": (0.6, 0.8)}
    >>> [round(end, 3) for end in interval_of_mean(scores, intervals)]
    [0.529, 0.671]
    >>> [round(end, 3) for end in interval_of_mean(scores, intervals, independent=False)]
    [0.5, 0.7]
    """
    add = math.hypot if independent else lambda *distances: math.fsum(distances)
    mean = float(np.mean([*scores.values()]))
    below = add(*(score - intervals[code][0] for code, score in scores.items()))
    above = add(*(intervals[code][1] - score for code, score in scores.items()))
    return mean - below / len(scores), mean + above / len(scores)


def _interval(mean: float, variance: float, count: int) -> Interval:
    """From the variance of the mean; scores that are all the same do not tell theirs, and count as hits and misses."""
    return share_interval(mean, mean * (1 - mean) / variance if variance > 1e-12 else count)


def format_interval(interval: Interval | None, format_spec: str) -> str:
    """An interval as text; empty if there is none.

    >>> format_interval((0.366, 0.634), "%"), format_interval(None, "%")
    ('36.6–63.4', '')
    """
    return "" if interval is None else "–".join(format_score(end, format_spec) for end in interval)
