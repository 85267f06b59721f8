"""Timing for the benchmarks: alternating runs, by the clock and in processor time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from babelray.encoder.text_encoder import TextEncoder


@dataclass(frozen=True)
class Timing:
    """The result of a run, and the seconds that it took."""

    result: Any
    clock: float
    processor: float


def measure(run: Callable[[], Any]) -> Timing:
    start, start_processor = time.perf_counter(), time.process_time()
    result = run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return Timing(result, time.perf_counter() - start, time.process_time() - start_processor)


def alternate(runs: Mapping[str, Callable[[], Any]], rounds: int, warm_up: int = 0) -> dict[str, Timing]:
    """The last result and the median seconds of each run.

    Every round runs all of them once, since the speed of a shared machine changes. Rounds to warm up do not count.
    """
    table = [{name: measure(run) for name, run in runs.items()} for _ in range(warm_up + rounds)][warm_up:]
    return {
        name: Timing(
            table[-1][name].result,
            median(row[name].clock for row in table),
            median(row[name].processor for row in table),
        )
        for name in runs
    }


def recorded_batches(encoder: TextEncoder, run: Callable[[], object]) -> list[tuple[Tensor, Tensor]]:
    """The batches that an encoder reads during a run."""
    read, batches = encoder.read, list[tuple[Tensor, Tensor]]()

    def record(ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        batches.append((ids_BT, mask_BT))
        return read(ids_BT, mask_BT)

    encoder.read = record
    run()
    encoder.read = read
    return batches


def forward_pass(encoder: TextEncoder, batches: list[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    """The bare forward pass over recorded batches."""

    def run() -> None:
        with torch.no_grad():
            for ids_BT, mask_BT in batches:
                encoder.read(ids_BT, mask_BT)

    return run
