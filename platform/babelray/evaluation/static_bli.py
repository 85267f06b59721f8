"""Translation of held-out words by static vectors: with the hub, and between all languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS, Benchmark, Result, System
from babelray.evaluation.held_out import Pairs, held_out_pairs

if TYPE_CHECKING:
    from babelray.vectors.word_vectors import WordVectors


@BENCHMARKS.register
class StaticBli(Benchmark):
    """Share of held-out words whose nearest word in the hub (CSLS) is a translation. Before: the static vectors as
    extracted. After: mapped into the hub's space.
    """

    title: ClassVar[str] = "Word translation by static vectors"
    main_metric: ClassVar[str] = "p1"
    columns: ClassVar[Mapping[str, str]] = {"words": ",.0f", "p1": "%", "p5": "%", "mrr": ".3f", "nn_p1": "%"}
    metric_titles: ClassVar[Mapping[str, str]] = {"nn_p1": "P@1 by cosine"}
    captions: ClassVar[Mapping[str, str]] = {
        "matrix": "Word translation between all languages. P@1 by CSLS from each language (rows) to each (columns), by "
        "static vectors. Where neither is the hub, words that translate the same word of the hub count as "
        "translations.",
    }
    needs: ClassVar[tuple[str, ...]] = ("vectors", "corpus")
    held_out: ClassVar[bool] = True
    for_own_files: ClassVar[str] = "use `babelray bli`"
    headline: ClassVar[bool] = True

    benchmark: Literal["bli"] = "bli"
    matrix: bool = False
    """Whether words are translated between all pairs of languages too."""

    def score(self, system: System) -> Result:
        return Result.merged([self.score_part(system, code) for code in self.parts(system)])

    def parts(self, system: System) -> list[str]:
        return list(system.languages if self.matrix else system.others)

    def score_part(self, system: System, part: str) -> Result:
        """Translation from one language, to the hub and, with `matrix`, to every other."""
        from babelray.metrics.bli import flat_scores, gold, rank_translations

        tests = held_out_pairs(system, "dictionary")
        scores: dict[str, dict[str, float]] = {}
        row: dict[str, float] = {}
        predictions: dict[str, Any] = {}
        source: WordVectors | None = None
        for other in system.languages if self.matrix else [system.hub]:
            pairs: Pairs = gold(tests, part, other, system.hub) if other != part else []
            if pairs:
                source = source or word_vectors(system, part)
                ranks = rank_translations(source, word_vectors(system, other), pairs)
                values = flat_scores(ranks.scores)
                if not values["words"]:
                    continue  # no word could be asked: that is no score of 0
                row[other] = values["p1"]
                if other == system.hub:
                    scores[part] = values
                    predictions[part] = {"example_scores": ranks.hits}
        chance = {code: own["chance"] for code, own in scores.items()}
        return Result(scores, predictions, {"matrix": {part: row}} if self.matrix else {}, chance)


def word_vectors(system: System, code: str) -> WordVectors:
    """The static vectors of a language."""
    from babelray.vectors.word_vectors import WordVectors

    if system.vectors is None:
        raise DataError("there are no static vectors to look words up in", "Use this benchmark in a recipe.")
    return WordVectors.load(system.vectors / "vectors" / code)
