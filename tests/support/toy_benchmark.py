"""A benchmark of one class, which is registered for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from babelray.evaluation.benchmark import BENCHMARKS, Benchmark, Result, System


@contextlib.contextmanager
def toy_benchmark(parts: Sequence[str] = ()) -> Iterator[type[Benchmark]]:
    """The benchmark `toy`: half of the examples are right before, three quarters after."""

    @BENCHMARKS.register
    class Toy(Benchmark):
        """Share of toys that are found."""

        title: ClassVar[str] = "A toy"
        main_metric: ClassVar[str] = "share"
        columns: ClassVar[Mapping[str, str]] = {"toys": ",.0f", "share": "%"}
        metric_titles: ClassVar[Mapping[str, str]] = {"share": "toys found"}
        needs: ClassVar[tuple[str, ...]] = ()
        fails: ClassVar[bool] = False

        benchmark: Literal["toy"] = "toy"
        bonus: float = 0.0

        def parts(self, system: System) -> list[str]:
            return list(parts) or super().parts(system)

        def score(self, system: System) -> Result:
            return Result.merged([self.score_part(system, code) for code in system.others])

        def score_part(self, system: System, part: str) -> Result:
            if self.fails:
                raise AssertionError("it is scored again")
            right = [1, 0, 1, int(system.encoder.endswith("pretrain/encoder"))]
            share = sum(right) / 4 + self.bonus
            scores = {part: {"toys": 4, "share": share}}
            return Result(scores, {part: {"example_scores": right}}, {"matrix": {part: {"en": share}}}, {part: 0.25})

    try:
        yield Toy
    finally:
        BENCHMARKS.remove("toy")
