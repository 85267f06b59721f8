"""Translation of held-out words by an encoder that reads every word alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from babelray.evaluation.benchmark import BENCHMARKS, EncoderBenchmark, Result, System
from babelray.evaluation.held_out import held_out_pairs

if TYPE_CHECKING:
    from babelray.encoder.text_encoder import TextEncoder
    from babelray.vectors.word_vectors import WordVectors


@BENCHMARKS.register
class WordTranslation(EncoderBenchmark):
    """Share of held-out words whose nearest word in the hub (CSLS) is a translation, every word encoded alone. Before:
    the encoder the run started from. After: the aligned encoder.
    """

    title: ClassVar[str] = "Word translation by the encoder"
    main_metric: ClassVar[str] = "p1"
    columns: ClassVar[Mapping[str, str]] = {"words": ",.0f", "p1": "%", "p5": "%", "mrr": ".3f"}
    needs: ClassVar[tuple[str, ...]] = ("encoder", "corpus")
    held_out: ClassVar[bool] = True
    for_own_files: ClassVar[str] = "use the benchmark contextual-bli, on parallel sentences"
    headline: ClassVar[bool] = True

    benchmark: Literal["words"] = "words"
    words: int = Field(20_000, ge=1)
    """Number of each language's most frequent words among which translations are searched, besides the tested words."""

    def run(self, encoder: TextEncoder, system: System) -> Result:
        from babelray.metrics.bli import flat_scores, rank_translations

        pairs = held_out_pairs(system, "dictionary")
        tested = [target for own in pairs.values() for _, target in own]
        hubs: dict[TextEncoder, WordVectors] = {}
        scores, predictions = {}, {}
        for code, own in pairs.items():
            hub_reader, reader = encoder.for_language(system.hub, code), encoder.for_language(code, system.hub)
            if hub_reader not in hubs:
                hubs[hub_reader] = self._encode(hub_reader, system, system.hub, tested)
            source = self._encode(reader, system, code, [source for source, _ in own])
            ranks = rank_translations(source, hubs[hub_reader], own)
            scores[code] = flat_scores(ranks.scores)
            predictions[code] = {"example_scores": ranks.hits}
        chance = {code: own["chance"] for code, own in scores.items()}
        return Result(scores, predictions, chance=chance)

    def _encode(self, encoder: TextEncoder, system: System, code: str, tested: list[str]) -> WordVectors:
        """Tested words and the most frequent ones, each encoded alone."""
        from babelray.text.corpus import read_vocabulary
        from babelray.vectors.word_vectors import WordVectors

        assert system.corpus is not None
        frequent = islice(read_vocabulary(system.corpus, code).items(), self.words)
        counts = dict.fromkeys(tested, 0) | dict(frequent)
        return WordVectors(list(counts), encoder.encode(list(counts)), list(counts.values()))
