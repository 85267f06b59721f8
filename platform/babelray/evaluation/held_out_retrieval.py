"""Sentence retrieval on held-out sentences: with the hub, and between all languages."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from babelray.evaluation.benchmark import BENCHMARKS, EncoderBenchmark, Result, System
from babelray.evaluation.held_out import held_out_pairs

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder

MIN_SENTENCES = 10
"""Two languages that share fewer sentences are not compared."""


@BENCHMARKS.register
class HeldOutRetrieval(EncoderBenchmark):
    """Share of held-out sentences whose nearest neighbour in the other language is their translation, both directions
    averaged. Before: the encoder the run started from. After: the aligned encoder.
    """

    title: ClassVar[str] = "Sentence retrieval"
    main_metric: ClassVar[str] = "mean"
    columns: ClassVar[Mapping[str, str]] = {"sentences": ",.0f", "mean": "%", "to_hub": "%", "from_hub": "%"}
    captions: ClassVar[Mapping[str, str]] = {
        "matrix": "Sentence retrieval between all languages. Share of sentences of a language (rows) whose nearest "
        "neighbour in another (columns) is their translation. Neither needs to be the hub: the pairs come from "
        "sentences that translate the same one of the hub.",
    }
    needs: ClassVar[tuple[str, ...]] = ("encoder", "corpus")
    held_out: ClassVar[bool] = True
    for_own_files: ClassVar[str] = "use the benchmark tatoeba"
    headline: ClassVar[bool] = True

    benchmark: Literal["retrieval"] = "retrieval"

    def run(self, encoder: TextEncoder, system: System) -> Result:
        from babelray.metrics.retrieval import correct_translations, retrieval_accuracy

        scores: dict[str, dict[str, float]] = {}
        predictions: dict[str, Any] = {}
        vectors: dict[str, dict[str, Tensor]] = {system.hub: {}}
        for code, pairs in held_out_pairs(system, "parallel").items():
            sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
            source_ND = encoder.for_language(code, system.hub).encode(sources)
            target_ND = encoder.for_language(system.hub, code).encode(targets)
            scores[code] = retrieval_accuracy(source_ND, target_ND) | {"sentences": len(pairs)}
            correct = dict(zip(("to_hub", "from_hub"), correct_translations(source_ND, target_ND), strict=True))
            predictions[code] = {side: {"example_scores": own_N.int().tolist()} for side, own_N in correct.items()}
            vectors[code] = dict(zip(targets, source_ND, strict=True))
            vectors[system.hub] |= zip(targets, target_ND, strict=True)
        matrix = retrieval_matrix(vectors)
        chance = {code: 1 / own["sentences"] for code, own in scores.items()}
        return Result(scores, predictions, {"matrix": matrix} if matrix else {}, chance)


def retrieval_matrix(vectors: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, float]]:
    """How often a sentence of a language (rows) finds its translation in another (columns).

    `vectors` holds those of each language's sentences by the sentence of the hub that they translate. Pairs of
    languages that share fewer than `MIN_SENTENCES` are left out.
    """
    import torch

    from babelray.metrics.retrieval import retrieval_accuracy

    rows: dict[str, dict[str, float]] = {code: {} for code in vectors}
    for first, second in combinations(vectors, 2):
        shared = [key for key in vectors[first] if key in vectors[second]]
        if len(shared) >= MIN_SENTENCES:
            a_ND, b_ND = (torch.stack([vectors[code][key] for key in shared]) for code in (first, second))
            accuracy = retrieval_accuracy(a_ND, b_ND)
            rows[first][second], rows[second][first] = accuracy["to_hub"], accuracy["from_hub"]
    return rows if any(rows.values()) else {}
