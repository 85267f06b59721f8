"""Static vectors and an encoder's vectors of the same words, mixed and scored (Vulić et al., 2023).

`mapping/interpolation.py` has the equations. Scores are those of every λ, the weight of the encoder in the mixture:
λ = 0 is static vectors alone, λ = 1 the encoder alone.

Shapes: E width of static vectors, D width of the encoder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.metrics.word_similarity import Missing, Rating
    from babelray.vectors.word_vectors import WordVectors

PLAIN, TUNED = "plain", "tuned"
"""The encoder before and after tuning; the paper's noCL and +CL."""
COUNTED = {"p1": "words", "spearman": "pairs"}
"""What each metric is a mean or a correlation over."""
Curve = dict[str, dict[str, Any]]
"""{λ: scores}"""
Grid = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]
"""{language: {plain | tuned: {λ: scores}}}; for word similarity the first key may be two languages, as `de-en`."""


@dataclass(frozen=True)
class MixedVectors:
    """Static and encoded vectors of several languages, and the rotation of the former into the space of the latter."""

    static: Mapping[str, WordVectors]
    encoded: Mapping[str, WordVectors]
    rotation_ED: Tensor

    @classmethod
    def fit(
        cls,
        static: Mapping[str, WordVectors],
        encoded: Mapping[str, WordVectors],
        words: Mapping[str, Collection[str]],
    ) -> MixedVectors:
        """Fit the rotation on the given words of each language; words without a static vector are left out."""
        import torch

        from babelray.mapping.interpolation import rectangular_procrustes

        positions = {
            code: sorted(static[code].position[word] for word in words[code] if word in static[code].position)
            for code in static
        }
        rows = {code: torch.tensor(values, dtype=torch.long) for code, values in positions.items()}
        sides = [torch.cat([side[code].matrix[rows[code]] for code in static]) for side in (static, encoded)]
        return cls(static, encoded, rectangular_procrustes(*sides))

    def at(self, code: str, lambda_: float) -> WordVectors:
        """The mixture of one language."""
        from babelray.mapping.interpolation import interpolate

        static, encoded = self.static[code], self.encoded[code]
        return static.with_matrix(interpolate(static.matrix, self.rotation_ED, encoded.matrix, lambda_))


def translation_curves(
    mixed: MixedVectors, lambdas: Sequence[float], hub: str, tests: Mapping[str, list[tuple[str, str]]]
) -> dict[str, Curve]:
    """Word translation into the hub by every mixture: {language: {λ: scores}}."""
    from babelray.metrics.bli import bli

    curves: dict[str, Curve] = {code: {} for code in tests}
    for value in lambdas:
        target = mixed.at(hub, value)
        for code, pairs in tests.items():
            curves[code][f"{value:g}"] = bli(mixed.at(code, value), target, pairs)
    return curves


@dataclass(frozen=True)
class RatedPairs:
    """Word pairs that people have rated; `title` names them in tables."""

    title: str
    first: str
    second: str
    """Languages of the words."""
    ratings: Sequence[Rating]
    missing: Missing


def similarity_curves(mixed: MixedVectors, lambdas: Sequence[float], rated: Sequence[RatedPairs]) -> dict[str, Curve]:
    """Correlations with people's ratings by every mixture: {title: {λ: scores}}."""
    from babelray.metrics.word_similarity import word_similarity

    curves: dict[str, Curve] = {pairs.title: {} for pairs in rated}
    for value in lambdas:
        vectors = {code: mixed.at(code, value) for code in mixed.static}
        for pairs in rated:
            scores = word_similarity(vectors[pairs.first], vectors[pairs.second], pairs.ratings, pairs.missing)
            curves[pairs.title][f"{value:g}"] = scores
    return curves


def best_lambda(grid: Grid, code: str, version: str = TUNED, metric: str = "p1") -> str:
    """The λ with the best score in a language; the smallest of equals."""
    curve = grid[code][version]
    return max(curve, key=lambda value: curve[value][metric])


def cells(lambda_: float) -> dict[str, tuple[str, str]]:
    """The columns of the paper's tables: a version and a λ each."""
    return {
        "static": (PLAIN, "0"),
        "plain/encoder": (PLAIN, "1"),
        "plain/mixed": (PLAIN, f"{lambda_:g}"),
        "tuned/encoder": (TUNED, "1"),
        "tuned/mixed": (TUNED, f"{lambda_:g}"),
    }


def score(grid: Grid, code: str, cell: tuple[str, str], metric: str = "p1") -> float | None:
    """The score of a mixture; None if this λ was not scored."""
    version, value = cell
    scores = grid[code][version].get(value)
    return scores[metric] if scores else None


def mean_scores(grid: Grid, lambda_: float, metric: str = "p1") -> dict[str, float]:
    """The mean over languages of every column that was scored."""
    columns = {name: [score(grid, code, cell, metric) for code in grid] for name, cell in cells(lambda_).items()}
    return {
        name: fmean(value for value in column if value is not None)
        for name, column in columns.items()
        if None not in column
    }


class Row(NamedTuple):
    """A row of the paper's tables."""

    code: str
    tested: int
    """Tested words or rated pairs."""
    coverage: float
    scores: list[float | None]
    """Of each of the `cells`."""


def score_rows(grid: Grid, lambda_: float, metric: str = "p1") -> list[Row]:
    """A row for each language."""
    rows = []
    for code in grid:
        first = next(iter(grid[code][TUNED].values()))
        scores = [score(grid, code, cell, metric) for cell in cells(lambda_).values()]
        rows.append(Row(code, first[COUNTED[metric]], first["coverage"], scores))
    return rows
