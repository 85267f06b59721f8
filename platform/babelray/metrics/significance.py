"""Is one system better than another, or was it luck with the examples?

Two systems are scored on the same examples; what counts is the difference of each pair of scores. Scores are given as
one array, or by language: then a system's score is the mean over languages of the means, as in all our tables, and
examples are drawn or flipped within their language.

    score(a) = 1/L Σ_l 1/N_l Σ_i a_{l,i}

Both tests ask what other examples of the same languages would have given. They say nothing of other languages, nor of
other seeds of the training. They take examples to be independent: if row i of every language is the same sentence,
hard in one and hard in all, give `over_rows` of the scores.

Shapes: N examples, S samples, V distinct values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from babelray.errors import DataError
from babelray.metrics.format import format_p, format_score

Doubles = npt.NDArray[np.float64]
Scores = Mapping[str, npt.ArrayLike] | npt.ArrayLike
"""The score of each example: an array (N,), or one for each language."""

EXACT = 16
"""As many differences, their signs are tried in all 2^16 ways."""
CELLS = 1 << 22
"""Draws that are held at once."""
SLACK = 1e-12
"""Sums that differ by less, relative to the sum of their sizes, are ties: rounding must part none."""


@dataclass(frozen=True)
class Bootstrap:
    """The difference of two scores, the first less the second, its confidence interval, and a two-sided p-value."""

    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Permutation:
    """The difference of two scores, the first less the second; a two-sided p-value; whether it is exact."""

    difference: float
    p: float
    exact: bool


def paired_bootstrap(a: Scores, b: Scores, samples: int = 10_000, seed: int = 1, level: float = 0.95) -> Bootstrap:
    """How far the difference varies when examples are drawn anew, with replacement (Efron, 1979; Koehn, 2004).

    With d* the difference of scores on examples drawn from those at hand, of each language as many as it has,

        interval = the middle `level` of all d*         p = 2 (1 + min(#{d* ≤ 0}, #{d* ≥ 0})) / (1 + S)

    so that p < 1 − level and an interval without 0 are the same up to rounding. Koehn's test is one-sided; the
    1 + keeps p from 0, which no number of samples can show.

    For a few tens of examples of a language or more. With fewer, the interval is too narrow, by √(1 − 1/N), and it can
    hold no value beyond those seen: then trust `paired_permutation`.

    >>> found = paired_bootstrap([1, 1, 0, 1] * 50, [0, 1, 0, 1] * 50)
    >>> found.difference, round(found.low, 2), round(found.high, 2), found.p < 0.001
    (0.25, 0.19, 0.31, True)
    """
    differences = _differences(a, b, least=2)
    if not 0 < level < 1:
        raise DataError(f"the level is {level}", "Give a share between 0 and 1, such as 0.95.")
    _check_samples(samples)
    generator = np.random.default_rng(seed)
    drawn_S = np.zeros(samples)
    for values_N in differences:
        drawn_S += _resampled_means(values_N, samples, generator) / len(differences)
    slack = SLACK * sum(np.abs(values_N).mean() for values_N in differences) / len(differences)
    rarer = min((drawn_S <= slack).sum(), (drawn_S >= -slack).sum())
    low, high = np.quantile(drawn_S, [(1 - level) / 2, (1 + level) / 2])
    p = min(1.0, 2 * (1 + float(rarer)) / (1 + samples))
    return Bootstrap(_mean(differences), float(low), float(high), p)


def paired_permutation(a: Scores, b: Scores, samples: int = 10_000, seed: int = 1) -> Permutation:
    """How often a difference as large comes of systems that are alike (Fisher, 1935; Noreen, 1989).

    If both are alike, it is a matter of chance which of a pair's scores belongs to which: the sign of its difference.

        p = #{|Σ_i s_i w_i d_i| ≥ |Σ_i w_i d_i|} / #{s}          s ∈ {−1, 1}^N,  w_i = 1 / (L N_l)

    All signs are tried if there are at most 16 differences that are not 0 (the sign of 0 changes nothing), else
    `samples` are drawn, and p is (1 + #) / (1 + S) (Phipson and Smyth, 2010). Right for any number of examples; but
    few examples, or few that differ, can give no small p: n that all favour one system give 2^{1−n}.

    >>> paired_permutation([1, 2, 3, 4], [0, 0, 0, 0])
    Permutation(difference=2.5, p=0.125, exact=True)
    """
    differences = _differences(a, b, least=1)
    _check_samples(samples)
    weighted_N = np.concatenate([values_N / (len(values_N) * len(differences)) for values_N in differences])
    weighted_N = weighted_N[weighted_N != 0]
    total, exact = weighted_N.sum(), len(weighted_N) <= EXACT
    threshold = abs(total) - SLACK * np.abs(weighted_N).sum()
    signs = _all_flips(len(weighted_N)) if exact else _random_flips(len(weighted_N), samples, seed)
    extreme = sum(int((np.abs(total - 2 * (flips_SN @ weighted_N)) >= threshold).sum()) for flips_SN in signs)
    p = extreme / 2 ** len(weighted_N) if exact else (1 + extreme) / (1 + samples)
    return Permutation(_mean(differences), p, exact)


def over_rows(scores: Mapping[str, npt.ArrayLike]) -> Doubles:
    """The mean over languages of each row (N,), for tests where row i of every language is the same sentence.

    The score is the same as by language, but a sentence is drawn, or flipped, in all languages at once.

    >>> over_rows({"de": [1, 0], "fi": [1, 1]}).tolist()
    [1.0, 0.5]
    """
    groups = _by_language(scores)
    lengths = {code: len(values_N) for code, values_N in groups.items()}
    if len(set(lengths.values())) != 1:
        problem = f"rows are not parallel: {', '.join(f'{code} has {n}' for code, n in lengths.items())}"
        raise DataError(problem, "Give the same sentences in every language, or give scores by language.")
    return np.mean(list(groups.values()), axis=0, dtype=np.float64)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values that hold for all comparisons together, in the order given (Holm, 1979).

        p̃_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j))         p_(1) ≤ … ≤ p_(m)

    If those below α are rejected, the probability of any false rejection is at most α, however the tests hang together.

    >>> holm([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    adjusted, least = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = least
    return adjusted


@dataclass(frozen=True)
class Row:
    """A system on the leaderboard; `behind` says by how much the best is better, `p` (after Holm) how surely."""

    system: str
    mean: float
    spread: float | None
    behind: float
    p: float
    tied: bool
    """Whether it is the best, or not significantly worse."""


@dataclass(frozen=True)
class Leaderboard:
    """Systems, the best first."""

    rows: tuple[Row, ...]
    alpha: float

    def markdown(self, percent: bool = True) -> str:
        """A table; scores are printed in per cent, or as they are."""

        def cell(value: float) -> str:
            return format_score(value, "%" if percent else ".3f")

        lines = ["| system | mean | behind the best | p |", "|---|---|---|---|"]
        for location, row in enumerate(self.rows):
            mean = cell(row.mean) + ("" if row.spread is None else f" ± {cell(row.spread)}")
            against = ["", ""] if not location else [cell(row.behind), format_p(row.p)]
            name = row.system.replace("|", "\\|")
            lines.append(f"| {' | '.join([name, f'**{mean}**' if row.tied else mean, *against])} |")
        spread = "± is the standard deviation over seeds. " if any(row.spread is not None for row in self.rows) else ""
        test = f"paired permutation test, Holm's correction, α = {self.alpha:g}"
        return "\n".join([*lines, "", f"{spread}Bold: not significantly worse than the best ({test}).", ""])


def leaderboard(
    scores: Mapping[str, Scores],
    higher_is_better: bool = True,
    alpha: float = 0.05,
    spread: Mapping[str, float] | None = None,
    samples: int = 10_000,
    seed: int = 1,
) -> Leaderboard:
    """Systems by their mean, with a mark on those that are not significantly worse than the best.

    Each is compared with the best by `paired_permutation`, and p-values are corrected by `holm` for the number of
    comparisons. The best is chosen by the same examples that it is compared on, which favours it a little: among equal
    systems, one is left without a mark somewhat more often than α says. `spread` is for what examples cannot show, such
    as the standard deviation over seeds; scores of several seeds are to be averaged for each example first.

    >>> board = leaderboard({"a": [0.0] * 9, "b": [1.0] * 9, "c": [1.0] * 8 + [0.0]})
    >>> [(row.system, row.tied) for row in board.rows]
    [('b', True), ('c', True), ('a', False)]
    """
    if not scores:
        raise DataError("a leaderboard of no systems", "Give the scores of at least one.")
    if not 0 < alpha < 1:
        raise DataError(f"alpha is {alpha}", "Give a share between 0 and 1, such as 0.05.")
    unknown = ", ".join((spread or {}).keys() - scores.keys())
    if unknown:
        raise DataError(f"a spread of {unknown}, but no scores", f"Name systems that have: {', '.join(scores)}.")
    means = {system: _mean(list(_by_language(given, system).values())) for system, given in scores.items()}
    order = sorted(means, key=means.__getitem__, reverse=higher_is_better)
    best, *others = order
    ps = holm([_compared(scores, best, other, samples, seed) for other in others])
    rows = [
        Row(
            system=system,
            mean=means[system],
            spread=(spread or {}).get(system),
            behind=abs(means[best] - means[system]),
            p=p,
            tied=p >= alpha,
        )
        for system, p in zip(order, [1.0, *ps], strict=True)
    ]
    return Leaderboard(tuple(rows), alpha)


def _compared(scores: Mapping[str, Scores], best: str, other: str, samples: int, seed: int) -> float:
    try:
        return paired_permutation(scores[best], scores[other], samples, seed).p
    except DataError as error:
        raise DataError(f"{best} against {other}: {error.problem}", error.remedy) from error


def _by_language(scores: Scores, system: str = "") -> dict[str, Doubles]:
    """Checked scores by language; those that were given as one array have the name "" for theirs."""
    given = scores if isinstance(scores, Mapping) else {"": scores}
    if not given:
        raise DataError(_at(system, "scores of no language"), "Give those of at least one.")
    groups = {}
    for language, values in given.items():
        where = ", ".join(filter(None, [system, language]))
        try:
            array_N = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(_at(where, f"not an array of numbers ({error})"), "Give a number an example.") from error
        if array_N.ndim != 1 or not len(array_N):
            problem = f"scores of shape {array_N.shape}, not one for each example"
            raise DataError(_at(where, problem), "Give a list of numbers, one for each example.")
        if not np.isfinite(array_N).all():
            problem = f"the score of example {int(np.flatnonzero(~np.isfinite(array_N))[0])} is not a finite number"
            raise DataError(_at(where, problem), "Score every example, or leave it out for every system.")
        groups[str(language)] = array_N
    return groups


def _differences(a: Scores, b: Scores, least: int) -> list[Doubles]:
    """The differences of paired scores of each language."""
    first, second = _by_language(a, "the first system"), _by_language(b, "the second system")
    if first.keys() != second.keys():
        apart = ", ".join(sorted(code or "no language" for code in first.keys() ^ second.keys()))
        raise DataError(f"only one of the systems has scores of {apart}", "Score both on the same languages.")
    for language, values_N in first.items():
        counts = len(values_N), len(second[language])
        if counts[0] != counts[1]:
            problem = f"{counts[0]} scores of the first system, but {counts[1]} of the second"
            raise DataError(_at(language, problem), "Score both on the same examples, in the same order.")
        if counts[0] < least:
            problem = f"{counts[0]} example, at least {least} are needed to see how they vary"
            raise DataError(_at(language, problem), "Give more examples, or use a permutation test.")
    return [values_N - second[language] for language, values_N in first.items()]


def _at(where: str, problem: str) -> str:
    return f"{where}: {problem}" if where else problem


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise DataError(f"{samples} samples", "Give at least a thousand: p-values are counted in them.")


def _mean(groups: Sequence[Doubles]) -> float:
    return float(np.mean([values_N.mean() for values_N in groups]))


def _blocks(samples: int, width: int) -> Iterator[int]:
    """Parts of a number of samples that hold a bounded number of cells."""
    rows = max(1, CELLS // max(1, width))
    for start in range(0, samples, rows):
        yield min(rows, samples - start)


def _resampled_means(values_N: Doubles, samples: int, generator: np.random.Generator) -> Doubles:
    """The means (S,) of as many values drawn with replacement.

    Where many values are the same (right or wrong: −1, 0, 1), how often each is drawn comes from the multinomial
    distribution: a few draws a sample in place of N.
    """
    count = len(values_N)
    distinct_V, times_V = np.unique(values_N, return_counts=True)
    if 10 * len(distinct_V) <= count:
        parts = [
            generator.multinomial(count, times_V / count, size=rows) @ distinct_V / count
            for rows in _blocks(samples, len(distinct_V))
        ]
    else:
        parts = [
            values_N[generator.integers(count, size=(rows, count), dtype=np.int32)].mean(1)
            for rows in _blocks(samples, count)
        ]
    return np.concatenate(parts)


def _all_flips(count: int) -> Iterator[Doubles]:
    """Every way (2^N, N) to flip signs: 1 is a flip."""
    yield (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(np.float64)


def _random_flips(count: int, samples: int, seed: int) -> Iterator[Doubles]:
    """`samples` ways to flip signs, in blocks (rows, N): a bit each."""
    generator = np.random.default_rng(seed)
    for rows in _blocks(samples, count):
        bytes_SN = generator.integers(256, size=(rows, -(-count // 8)), dtype=np.uint8)
        yield np.unpackbits(bytes_SN, axis=1, count=count).astype(np.float64)
