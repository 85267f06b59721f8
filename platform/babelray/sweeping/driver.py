"""The driver of a sweep: it passes the events of trials on to the records, the terminal, MLflow and the search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from babelray.cluster import session as cluster
from babelray.cluster.devices import concurrent_runs
from babelray.errors import RecipeError
from babelray.sweeping.board import Board
from babelray.sweeping.records import Journal, Record, Trial, metric_value
from babelray.sweeping.trial import Event, Locks

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.sweeping.search import Search
    from babelray.sweeping.space import Space, Sweep
    from babelray.tracking.tracker import ChildRun, Tracker

STATUS = {"running": "KILLED", "done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
"""The status in MLflow of each state of a trial."""


class SweepDriver:
    """Receives the events of trials and passes them on."""

    def __init__(
        self,
        sweep: Sweep,
        journal: Journal,
        records: dict[str, Record],
        search: Search,
        tracker: Tracker,
        console: Console,
    ) -> None:
        import ray

        self.sweep, self.journal, self.records, self.search, self.tracker = sweep, journal, records, search, tracker
        self.location = journal.location.parent
        restarts = {"max_restarts": -1, "max_task_retries": -1}  # after a loss nobody holds a lock
        self.locks = ray.remote(num_cpus=0, scheduling_strategy=cluster.this_node(), **restarts)(Locks).remote()
        space = sweep.space
        training = getattr(sweep.recipe, "pretrain", None)
        workers = training.workers if training else 1
        self.concurrent = space.concurrent or concurrent_runs(workers, ray.cluster_resources())
        self.board = Board(space, console, records, space.points * len(space.seeds), self.concurrent)
        self.runs: dict[str, ChildRun] = {}
        self.error: RecipeError | None = None
        """An error that every further trial would have too."""

    def on_start(self, trial: Trial) -> None:
        """Open the record and the run of a trial. One whose process was lost starts again and has both already."""
        if trial.key in self.runs:
            return
        earlier = self.records.get(trial.key)
        record = self.records[trial.key] = Record(trial)
        if earlier and earlier.state == "running":
            record.reports = earlier.reports
        self.board.start(record)
        self.journal.write(record)
        self.runs[trial.key] = self.tracker.trial(*run_of(trial))

    def on_event(self, trial: Trial, event: Event) -> None:
        """Record an event of a trial."""
        record = self.records[trial.key]
        if "stage" in event:
            record.progress = event["stage"]
            self.journal.write(record)
        elif "values" in event:
            self._on_training_step(record, event["step"], event["values"])
        elif "metrics" in event:
            record.metrics = event["metrics"]
            self._score(record)
        elif "error" in event:
            record.state, record.error = "failed", event["error"]

    def _on_training_step(self, record: Record, step: int, values: dict[str, float]) -> None:
        record.progress = f"step {step}"
        self.runs[record.trial.key].metrics(values, step)
        space = self.sweep.space
        if space.scheduler == "asha" and space.asha.metric.name in values:
            record.reports.append((step, values[space.asha.metric.name]))
            self.journal.write(record)

    def _score(self, record: Record) -> None:
        """Set the state of a trial by the metrics of the sweep."""
        try:
            values = {metric.title: metric_value(record.metrics, metric) for metric in self.sweep.space.metrics}
        except RecipeError as error:  # the next trial would lack this metric too
            self.error = error
            self.search.stop()
            record.state, record.error = "failed", error.problem
            return
        bad = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        record.state, record.error = ("failed", ", ".join(bad)) if bad else ("done", "")

    def on_end(self, trial: Trial, holder: str, error: str = "") -> None:
        """Close a trial. One that ended without a final event was stopped by the scheduler, or lost."""
        record, run = self.records[trial.key], self.runs[trial.key]
        self.locks.release.remote(holder)
        if error and record.state == "running":
            record.state, record.error = "failed", error
        elif record.state == "running":
            record.state = "stopped"
        record.seconds, record.progress = round(self.board.seconds(record), 1), ""
        self.journal.write(record)
        self.search.finished(record)
        run.metrics(metrics_of(self.sweep.space, record), None)
        if record.error:
            run.text("error.txt", record.error)
        run.end(STATUS[record.state])
        self.board.end(record)

    def abandon(self) -> None:
        """Close the runs of trials that were running when the sweep was interrupted."""
        for key, run in self.runs.items():
            if self.records[key].state == "running":
                run.end("KILLED")


def run_of(trial: Trial) -> tuple[str, str, dict[str, Any]]:
    """The name, the key and the parameters of a trial's run in MLflow."""
    return f"point {trial.point}, seed {trial.seed}", trial.key, {**trial.values, "trial_seed": trial.seed}


def metrics_of(space: Space, record: Record) -> dict[str, float]:
    """The metrics of a finished trial for MLflow, including the means that the sweep's metrics stand for."""
    means = {m.title: metric_value(record.metrics, m) for m in space.metrics} if record.state == "done" else {}
    return record.metrics | means | {"seconds": record.seconds}
