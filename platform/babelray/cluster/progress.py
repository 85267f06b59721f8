"""The progress of a stage: a bar with a rate and an ETA on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Task, TaskID


WIDE = 110
"""Columns of a terminal; a narrower one has no room for the rate and the elapsed time beside the note."""


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_rate(task.speed or task.finished_speed, task.fields["unit"]), style="progress.data.speed")


def _rate(speed: float | None, unit: str) -> str:
    if not speed:
        return f"– {unit}/s"
    return f"{speed:,.0f} {unit}/s" if speed >= 10 else f"{speed:.1f} {unit}/s"


class Progress:
    """The progress bar of one stage, for all of its tasks (such as languages) together.

    >>> from rich.console import Console
    >>> with Progress(Console(quiet=True), "corpus") as progress:
    ...     progress.update(3, 10, "files", "de")
    """

    LINE_EVERY = 10.0

    def __init__(self, console: Console, stage: str) -> None:
        self.console = console
        self.stage = stage
        self.started = time.monotonic()
        self._last_line = self.started
        narrow = console.width < WIDE
        self._columns = RichProgress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("[bold]{task.description:<9}"),
            BarColumn(bar_width=6 if narrow else 20),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
            *(() if narrow else (_RateColumn(), TimeElapsedColumn())),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self.done, self.total, self.unit = 0.0, 0.0, ""
        self._began, self._done_then = self.started, 0.0
        self.peak_bytes = 0
        """Memory of the largest process that worked for the stage, as far as reported."""

    def update(self, done: float, total: float, unit: str, note: str = "") -> None:
        """Report that `done` of `total` units are done."""
        now = time.monotonic()
        if unit != self.unit:  # the time before (starting workers, another unit) is not part of the rate
            self._began, self._done_then = now, done
        self.done, self.total, self.unit = done, total, unit
        if self._task is None:
            self._task = self._columns.add_task(self.stage, total=total, unit=unit, note=note)
        self._columns.update(self._task, completed=done, total=total, unit=unit, note=note)
        if not self.console.is_terminal and now - self._last_line >= self.LINE_EVERY:
            self._last_line = now
            self.console.print(self._line(now, note), highlight=False)

    def _line(self, now: float, note: str) -> str:
        seconds = now - self._began
        speed = (self.done - self._done_then) / seconds if seconds else 0.0
        eta = f"{(self.total - self.done) / speed:.0f} s" if speed else "unknown"
        state = f"{self.done:,.0f}/{self.total:,.0f} {self.unit}, {_rate(speed, self.unit)}, ETA {eta}"
        return f"{self.stage}: {state}{', ' + note if note else ''}"

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def __enter__(self) -> Progress:
        self._columns.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._columns.stop()
