"""The shape of the space of parallel sentences: see `metrics/geometry.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from babelray.evaluation.benchmark import BENCHMARKS, Result, System
from babelray.evaluation.parallel import ParallelBenchmark
from babelray.metrics.intervals import interval_of_mean, share_interval

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder


@BENCHMARKS.register
class Geometry(ParallelBenchmark):
    """The space of parallel sentences, without their translations. Identified: how often a linear classifier recognises
    the language of a vector; the lower, the more neutral is the space. Gap and eigenvector distance: how unlike the
    shapes of two languages are. Hubness: whether a few sentences are neighbours of all others. Lower is better in all
    of these.
    """

    title: ClassVar[str] = "The shape of the space"
    main_metric: ClassVar[str] = "language_identified"
    columns: ClassVar[Mapping[str, str]] = {
        "language_identified": "%",
        "gap": ".1f",
        "eigenvector_distance": ".1f",
        "hubness": ".2f",
        "mean_cosine": ".3f",
        "isoscore": ".3f",
    }
    lower_is_better: ClassVar[bool] = True

    benchmark: Literal["geometry"] = "geometry"
    seed: int = 1

    def run(self, encoder: TextEncoder, system: System) -> Result:
        from babelray.metrics.geometry import (
            anisotropy,
            eigenvector_similarity,
            hubness,
            language_identification,
            singular_value_gap,
        )

        pairs = self.read()
        vectors = {code: encoder.for_language(code, self.hub).encode(sentences) for code, sentences, _ in pairs}
        probe = language_identification(vectors, seed=self.seed) if len(vectors) > 1 else None
        identified: dict[str, float] = probe["by_language"] if probe else dict.fromkeys(vectors, 1.0)  # a sole language
        scores: dict[str, dict[str, float]] = {}
        hubs: dict[tuple[Any, ...], Tensor] = {}
        for code, sentences, translations in pairs:
            reader = encoder.for_language(self.hub, code)
            if (reader, *translations) not in hubs:
                hubs[reader, *translations] = reader.encode(translations)
            x_ND, z_ND = vectors[code], hubs[reader, *translations]
            space = anisotropy(x_ND)
            scores[code] = {
                "sentences": len(sentences),
                "language_identified": identified[code],
                "gap": singular_value_gap(x_ND, z_ND)["gap"],
                "eigenvector_distance": eigenvector_similarity(x_ND, z_ND),
                "hubness": hubness(x_ND, z_ND, k=min(10, len(z_ND) - 1))["skewness"],
                "mean_cosine": space["mean_cosine"],
                "isoscore": space["isoscore"],
            }
        if probe is None:
            return Result(scores, chance=identified)
        intervals = {code: share_interval(share, probe["vectors"]) for code, share in identified.items()}
        intervals[""] = interval_of_mean(identified, intervals, independent=False)  # sentences are often shared
        return Result(scores, chance=dict.fromkeys(identified, probe["chance"]), intervals=intervals)
