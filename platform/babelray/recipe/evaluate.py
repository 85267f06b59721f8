"""How systems are evaluated before and after training: the list of benchmarks."""

from __future__ import annotations

from pydantic import Field, field_validator

from babelray.config import Config, unique_labels
from babelray.evaluation.benchmark import AnyBenchmark

HELD_OUT = ["retrieval", "words", "bli", "layers", "word-map", "perplexity"]
"""Benchmarks on the held-out part of the corpus, which every run has."""


class EvaluateConfig(Config):
    """The encoder and the static vectors are evaluated before and after."""

    layer: int | None = None
    """The layer that benchmarks read which do not name one; 0 is the embedding layer, negative numbers count from the
    last. Null: the last. Hämmerl et al. (2022) read sentences from layer 7 of XLM-R base."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included, of benchmarks that do not say otherwise."""
    benchmarks: list[AnyBenchmark] = Field(HELD_OUT, validate_default=True)
    """What is measured, each benchmark by its name or with its settings; by default those on the held-out part of the
    corpus."""

    @field_validator("benchmarks")
    @classmethod
    def _labels_are_unique(cls, benchmarks: list[AnyBenchmark]) -> list[AnyBenchmark]:
        unique_labels(benchmarks, "benchmarks")
        return benchmarks

    def completed(self) -> list[AnyBenchmark]:
        """The benchmarks, with the layer and the batch size of those that do not give them."""
        return [benchmark.completed(layer=self.layer, batch_tokens=self.batch_tokens) for benchmark in self.benchmarks]
