"""Similarity of words by static vectors, against ratings: see `metrics/word_similarity.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import model_validator

from babelray.evaluation.benchmark import BENCHMARKS, Benchmark, Result, System
from babelray.evaluation.static_bli import word_vectors
from babelray.metrics.intervals import Interval, correlation_interval, interval_of_mean
from babelray.metrics.word_similarity import Missing, WordSimilaritySource, read_ratings, word_similarity

if TYPE_CHECKING:
    from babelray.storage import Location


@BENCHMARKS.register
class WordSimilarity(Benchmark):
    """How well the similarity of two words' vectors agrees with people's ratings: the harmonic mean of Spearman's and
    Pearson's correlations, times 100. Before: as extracted. After: mapped into the hub's space.
    """

    title: ClassVar[str] = "Word similarity by static vectors"
    main_metric: ClassVar[str] = "harmonic"
    columns: ClassVar[Mapping[str, str]] = {"pairs": ",.0f", "harmonic": "%", "spearman": "%", "pearson": "%"}
    metric_titles: ClassVar[Mapping[str, str]] = {"harmonic": "harmonic mean"}
    needs: ClassVar[tuple[str, ...]] = ("vectors",)
    headline: ClassVar[bool] = True

    examples: ClassVar[Mapping[str, str]] = {
        "path": "ratings/{lang}.csv (rated word pairs of a language)",
    }
    benchmark: Literal["similarity"] = "similarity"
    path: str
    """Files of rated word pairs: `dir/{lang}.csv` within languages, or `dir/{first}-{second}.csv` across them."""
    missing_words: Missing = "midpoint"
    """The similarity of pairs with a word that has no vector: the `midpoint` of that of the others; or `skip`."""

    @model_validator(mode="after")
    def _path_names_languages(self) -> Self:
        self._source()
        return self

    def _source(self) -> WordSimilaritySource:
        return WordSimilaritySource(path=self.path, missing=self.missing_words)

    def sources(self, languages: Sequence[str]) -> list[Location]:
        return self._source().sources(languages)

    def score(self, system: System) -> Result:
        scores = {}
        for (first, second), location in self._source().files(system.languages).items():
            source, target = word_vectors(system, first), word_vectors(system, second)
            name = first if first == second else f"{first}-{second}"
            scores[name] = word_similarity(source, target, read_ratings(location), self.missing_words)
        harmonic = {name: own["harmonic"] for name, own in scores.items()}
        intervals = {name: _interval(own["harmonic"], int(own["pairs"])) for name, own in scores.items()}
        if intervals:  # languages often have translations of the same pairs
            intervals[""] = interval_of_mean(harmonic, intervals, independent=False)
        return Result(scores, chance=dict.fromkeys(scores, 0.0), intervals=intervals)


def _interval(harmonic: float, pairs: int) -> Interval:
    """That of a correlation, which the harmonic mean of two lies between; it is never negative."""
    low, high = correlation_interval(harmonic, pairs)
    return max(0.0, low), high
