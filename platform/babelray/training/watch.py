"""What training says of itself: losses by objective and language, speed, and that something went wrong."""

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

EXPLODED = 20
"""A loss that is so many times further from 0 than at the first step, plus 1, has exploded."""


REMEDY = "Lower learning_rate or the weight of the objective, or look at what was drawn."


class Watch:
    """Collects the figures of steps, sends their means every `log_every`, and stops a run that has gone wrong."""

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
        """Stop if a loss of this step is not a number or has exploded; the weights have not changed yet."""
        means_O = (sums_OL.sum(1) / counts_OL.sum(1).clamp(min=1)).tolist()
        for row, label in enumerate(self.mixture.objectives):
            if not counts_OL[row].any():
                continue
            first = self.first.setdefault(label, means_O[row])
            limit = EXPLODED * (1 + abs(first))
            if not abs(means_O[row]) <= limit:  # also if it is not a number
                self._stop(step, label, means_O[row], limit, sums_OL[row] / counts_OL[row])

    def _stop(self, step: int, label: str, mean: float, limit: float, means_L: Tensor) -> None:
        values = zip(self.mixture.languages, means_L.tolist(), strict=True)
        examples = self.mixture.objectives[label].examples(step)
        drawn = {code for code, _ in examples}
        wrong = [code for code, value in values if code in drawn and not abs(value) <= limit]
        rows = [f"{code}:{row}" for code, row in examples if code in wrong]
        shown = ", ".join(rows[:8]) + (f" and {len(rows) - 8} more" if len(rows) > 8 else "")
        raise TrainingError(
            f"training diverged at step {step + 1}: the loss of {label} is {mean:.4g} "
            f"(languages {', '.join(wrong)}; drawn rows {shown})",
            f"{self._kept()}. {REMEDY}",
        )

    def _kept(self) -> str:
        saved = self.worker.saved
        return f"The last good checkpoint is that of step {saved}" if saved else "There was no checkpoint yet"

    def add(self, step: int, sums_OL: Tensor, counts_OL: Tensor, norm: float, tokens: int, waited: float) -> None:
        """Take in a step's figures; send the means since the last time when it is time."""
        if not math.isfinite(norm) and self.config.precision != "fp16":  # which passes such a step over
            raise TrainingError(
                f"training diverged at step {step}: the gradient's norm is {norm}", f"{self._kept()}. {REMEDY}"
            )
        self._sums += sums_OL.cpu()
        self._counts += counts_OL.cpu()
        self._steps += 1
        self._tokens += tokens
        self._waited += waited
        if step % self.config.log_every and step != self.config.steps:
            return
        seconds = time.perf_counter() - self._began
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
        values |= {
            "loss/total": total,
            "learning_rate": learning_rate(self.config, step - 1),
            "gradient_norm": norm,
            "speed/seconds_per_step": seconds / self._steps,
            "speed/tokens_per_second": self._tokens * self.worker.count / seconds,
            "speed/waiting_for_data": self._waited / seconds,
        }
        self.worker.metrics(step, values)
        self._reset()
