"""The terminal view of a sweep: every trial with its state, the best so far, and the estimated time left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from babelray.report.frame import format_duration
from babelray.sweeping.page import with_spread
from babelray.sweeping.records import Record, format_value, metric_value
from babelray.sweeping.results import best_point, completed_points, parameter_names
from babelray.sweeping.space import Space

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {"running": "cyan", "done": "green", "stopped": "yellow", "failed": "red"}
ROWS = 12
"""Trials in the live table, the latest."""


def trial_table(space: Space, records: Sequence[Record]) -> Table:
    table = Table(title=space.name, title_justify="left", title_style="bold", box=None, pad_edge=False)
    metrics = [metric.title for metric in space.metrics]
    heads = ["point", *parameter_names(space).values(), "seed", "state", *metrics, "time"]
    for head in heads:
        table.add_column(head, justify="left" if head == "state" else "right")
    for record in records:
        done = record.state == "done"
        detail = f": {record.error.splitlines()[0][:60]}" if record.error else f" {record.progress}"
        table.add_row(
            str(record.trial.point),
            *(format_value(record.trial.values[path]) for path in space.parameters),
            str(record.trial.seed),
            Text(f"{record.state}{detail}".strip(), style=COLOURS[record.state]),
            *(format_value(metric_value(record.metrics, metric)) if done else "–" for metric in space.metrics),
            format_duration(record.seconds) if record.seconds else "",
        )
    return table


def summary(space: Space, records: Sequence[Record], total: int) -> str:
    """The number of trials in each state, and the best point so far."""
    counts = {state: sum(record.state == state for record in records) for state in COLOURS}
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    over = sum(record.state != "running" for record in records)
    text = f"{over} of {total} trials" + (f" ({states})" if states else "")
    if best := best_point(space, completed_points(space, records)):
        values = ", ".join(f"{name} {format_value(best.values[path])}" for path, name in parameter_names(space).items())
        metrics = ", ".join(f"{metric.title} {with_spread(best, metric)}" for metric in space.metrics)
        text += f"; best so far: {metrics} with {values}"
    return text


class Board:
    """A live table on a terminal; elsewhere one line per finished trial."""

    def __init__(self, space: Space, console: Console, records: dict[str, Record], total: int, concurrent: int) -> None:
        self.space, self.console, self.records, self.total, self.concurrent = space, console, records, total, concurrent
        self.began: dict[str, float] = {}
        self._live = (
            Live(console=console, get_renderable=self._render, refresh_per_second=2) if console.is_terminal else None
        )

    def start(self, record: Record) -> None:
        self.began[record.trial.key] = time.monotonic()

    def end(self, record: Record) -> None:
        """Report the outcome of a trial."""
        if self._live:
            return
        error = f", {record.error.splitlines()[0]}" if record.error else ""
        line = f"{summary(self.space, self._ordered(), self.total)}; {self.eta()}"
        self.notify(f"{record.state}: {record.trial.label()}{error}; {line}")

    def notify(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def seconds(self, record: Record) -> float:
        return time.monotonic() - self.began[record.trial.key]

    def _ordered(self) -> list[Record]:
        return sorted(self.records.values(), key=lambda record: (record.trial.point, record.trial.seed))

    def eta(self) -> str:
        """Estimated from the mean time of the trials that this run has finished."""
        times = [self.records[key].seconds for key in self.began if self.records[key].state in ("done", "stopped")]
        if not times:
            return "ETA unknown"
        left = self.total - sum(record.state != "running" for record in list(self.records.values()))
        return f"ETA {format_duration(max(0, left) * sum(times) / len(times) / self.concurrent)}"

    def _render(self) -> Group:
        for record in list(self.records.values()):
            if record.state == "running" and record.trial.key in self.began:
                record.seconds = self.seconds(record)
        records = self._ordered()
        latest = trial_table(self.space, records[-ROWS:])
        return Group(latest, Text(f"{summary(self.space, records, self.total)}; {self.eta()}"))

    def __enter__(self) -> Board:
        if self._live:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
