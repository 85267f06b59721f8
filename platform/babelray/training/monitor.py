"""Monitoring of training: losses by objective and language, speed, and the detection of divergence."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch

from babelray.errors import TrainingError
from babelray.training.config import learning_rate

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.training.config import TrainingConfig
    from babelray.training.launch import Worker
    from babelray.training.mixture import Mixture

EXPLOSION = 20
"""Training has diverged when the absolute loss exceeds this multiple of 1 + that of the first step."""
REMEDY = "Lower learning_rate or the weight of the objective, or inspect the drawn examples."


class Monitor:
    """Collects the losses and times of steps, sends their means every `log_every` steps, and stops a diverged run."""

    def __init__(
        self, mixture: Mixture, worker: Worker, config: TrainingConfig, first: dict[str, float] | None
    ) -> None:
        self.mixture = mixture
        self.worker = worker
        self.config = config
        self.first = dict(first or {})
        """The loss of each objective at its first step."""
        self._reset()

    def _reset(self) -> None:
        shape = len(self.mixture.objectives), len(self.mixture.languages)
        self._sums, self._counts = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
        self._steps, self._tokens, self._waited, self._began = 0, 0, 0.0, time.perf_counter()

    def check(self, step: int, sums_OL: Tensor, counts_OL: Tensor) -> None:
        """Raise an error if a loss of this step is not a number or has exploded, before the weights change."""
        means_O = (sums_OL.sum(1) / counts_OL.sum(1).clamp(min=1)).tolist()
        for row, label in enumerate(self.mixture.objectives):
            if not counts_OL[row].any():
                continue
            first = self.first.setdefault(label, means_O[row])
            limit = EXPLOSION * (1 + abs(first))
            if not abs(means_O[row]) <= limit:  # also if it is not a number
                self._stop(step, label, means_O[row], limit, sums_OL[row] / counts_OL[row])

    def _stop(self, step: int, label: str, mean: float, limit: float, means_L: Tensor) -> None:
        values = zip(self.mixture.languages, means_L.tolist(), strict=True)
        examples = self.mixture.objectives[label].examples(step)
        drawn = {code for code, _ in examples}
        diverged = [code for code, value in values if code in drawn and not abs(value) <= limit]
        rows = [f"{code}:{row}" for code, row in examples if code in diverged]
        first_rows = ", ".join(rows[:8]) + (f" and {len(rows) - 8} more" if len(rows) > 8 else "")
        raise TrainingError(
            f"training diverged at step {step + 1}: the loss of {label} is {mean:.4g} "
            f"(languages {', '.join(diverged)}; drawn rows {first_rows})",
            f"{self._last_checkpoint()}. {REMEDY}",
        )

    def _last_checkpoint(self) -> str:
        saved = self.worker.saved
        return f"The last good checkpoint is that of step {saved}" if saved else "There was no checkpoint yet"

    def add(self, step: int, sums_OL: Tensor, counts_OL: Tensor, norm: float, tokens: int, waited: float) -> None:
        """Add the values of a step; every `log_every` steps, send the means since the last time."""
        if not math.isfinite(norm) and self.config.precision != "fp16":  # which skips such a step
            problem = f"training diverged at step {step}: the gradient's norm is {norm}"
            raise TrainingError(problem, f"{self._last_checkpoint()}. {REMEDY}")
        self._sums += sums_OL.cpu()
        self._counts += counts_OL.cpu()
        self._steps += 1
        self._tokens += tokens
        self._waited += waited
        if step % self.config.log_every and step != self.config.steps:
            return
        values = self._losses(step)
        values |= {"learning_rate": learning_rate(self.config, step - 1), "gradient_norm": norm, **self._speed()}
        self.worker.metrics(step, values)
        self._reset()

    def _losses(self, step: int) -> dict[str, float]:
        """The mean loss of each objective, in all and by language, and their weighted sum."""
        values: dict[str, float] = {}
        total = 0.0
        for row, (label, objective) in enumerate(self.mixture.objectives.items()):
            if not self._counts[row].any():
                continue
            values[f"loss/{label}"] = (self._sums[row].sum() / self._counts[row].sum()).item()
            total += objective.weight_at((step - 1) / self.config.steps) * values[f"loss/{label}"]
            for code, summed, count in zip(self.mixture.languages, self._sums[row], self._counts[row], strict=True):
                if count:
                    values[f"language/{label}/{code}"] = (summed / count).item()
        return values | {"loss/total": total}

    def _speed(self) -> dict[str, float]:
        seconds = time.perf_counter() - self._began
        return {
            "speed/seconds_per_step": seconds / self._steps,
            "speed/tokens_per_second": self._tokens * self.worker.count / seconds,
            "speed/waiting_for_data": self._waited / seconds,
        }
