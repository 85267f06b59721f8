"""What the terminal shows of a training: the loss, its change, and the speed."""

from __future__ import annotations

from collections.abc import Mapping

TOTAL, SPEED = "loss/total", "speed/tokens_per_second"


class LossNote:
    """A note of the last logged losses.

    >>> note = LossNote()
    >>> note.add({"loss/mlm": 7.2, "loss/total": 7.2, "speed/tokens_per_second": 3512.0})
    >>> note.add({"loss/mlm": 7.0, "loss/total": 7.0, "speed/tokens_per_second": 3498.0})
    >>> str(note)
    'loss 7.000 (−0.200), 3,498 tokens/s'
    """

    def __init__(self) -> None:
        self._loss: float | None = None
        self._text = ""

    def add(self, values: Mapping[str, float]) -> None:
        """Take the metrics of a step; those of a validation have no loss."""
        if TOTAL not in values:
            return
        loss, before = values[TOTAL], self._loss
        change = "" if before is None else f" ({loss - before:+.3f})".replace("-", "−")
        speed = f", {values[SPEED]:,.0f} tokens/s" if SPEED in values else ""
        self._text = f"loss {loss:.3f}{change}{speed}"
        self._loss = loss

    def __str__(self) -> str:
        return self._text
