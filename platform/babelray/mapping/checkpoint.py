"""Checkpoints of mappings that take long, and how much of the work is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.storage import Location

State = dict[str, "Tensor"]


class Checkpoint:
    """The last state of an iterative method, in one file. A state that belongs to other data or settings is ignored."""

    def __init__(self, file: Location, key: str, every: float = 30.0) -> None:
        """`key` stands for the data and settings; `every`: seconds between two states that are stored."""
        self.file, self.key, self.every = file, key, every
        self._stored = time.monotonic()

    def load(self) -> State | None:
        """The stored state; None if there is none."""
        from safetensors import safe_open

        if not self.file.exists():
            return None
        with self.file.local_input() as path, safe_open(path, "pt") as tensors:
            if tensors.metadata().get("key") != self.key:
                return None
            return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118

    def offer(self, state: State) -> None:
        """Store a state if the last one was stored some time ago."""
        from safetensors.torch import save_file

        if time.monotonic() - self._stored < self.every:
            return
        with self.file.writing() as path:
            save_file({name: tensor.contiguous() for name, tensor in state.items()}, path, {"key": self.key})
        self._stored = time.monotonic()


class Remaining:
    """The time that is left, from the duration of the steps so far."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._first = self._done = -1

    def text(self, done: int, left: float, at_least: bool = False) -> str:
        """`12 s per iteration, ETA 5 min`; with `at_least` the work that is left is a lower bound."""
        now = time.monotonic()
        if self._first < 0 or done <= self._done:  # the first step, also of a training that is repeated
            self._first, self._began = done - 1, self._last
        self._done, self._last = done, now
        seconds = (now - self._began) / (done - self._first)
        least = "at least " if at_least else ""
        return f"{seconds:.1f} s each, ETA {least}{format_eta(left * seconds)}"


def format_eta(seconds: float) -> str:
    """A duration, rounded.

    >>> format_eta(42), format_eta(300), format_eta(7300)
    ('42 s', '5 min', '2 h 02 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def key_of(method: Mapping[str, object], seed: int, *tensors: Tensor | None) -> str:
    """A digest of settings, seed and data."""
    import hashlib

    digest = hashlib.sha256(repr((sorted(method.items()), seed)).encode())
    for tensor in tensors:
        digest.update(b"none" if tensor is None else tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def epoch_progress(epochs: int, notify: Callable[[str], None]) -> Callable[[int, float], None]:
    """A function that reports an epoch and its criterion in a sentence with the time that is left."""
    remaining = Remaining()
    return lambda epoch, value: notify(
        f"epoch {epoch} of {epochs}, {remaining.text(epoch, epochs - epoch)}; criterion {value:.4f}"
    )
