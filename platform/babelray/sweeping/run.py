"""A sweep: trials on Ray Tune, kept by content, seen on the terminal and in MLflow; then a page and the best recipe.

A sweep lies at `<storage>/sweeps/<name>-<key>`: `trials/`, a record of each; at the end `sweep.html` and `best.yaml`.
The same command goes on where it was: trials that are done are kept, those that were running go on from the checkpoints
of their stages, those that failed are tried again.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from babelray import cluster
from babelray.errors import BabelrayError, RecipeError
from babelray.stages import artifact, pipeline
from babelray.stages.redo import NOTHING
from babelray.storage import Place
from babelray.storage.lock import Check, only_one
from babelray.sweeping.board import Board, summary, trial_table
from babelray.sweeping.page import sweep_page
from babelray.sweeping.records import Journal, Record, Trial, measured
from babelray.sweeping.results import best, points
from babelray.sweeping.search import Search
from babelray.sweeping.trial import STEP, WATCHED, Event, Locks, Telling, Terms, trainable
from babelray.tracking.tracker import ChildRun, Tracker

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.stages.artifact import Artifact
    from babelray.stages.pipeline import Step
    from babelray.sweeping.space import Space, Sweep

PAGE, BEST = "sweep.html", "best.yaml"
STATUS = {"running": "KILLED", "done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
"""What a trial's state is called in MLflow."""
FAILURES = 3
"""So often a trial whose process or node was lost is started again."""


def place_of(sweep: Sweep, steps: list[Step]) -> Place:
    """Where a sweep lies: what decides its results, but not how many trials are asked for."""
    space = sweep.space
    key = artifact.fingerprint(space=space.identity(), order=list(space.parameters), base=steps[-1].fingerprint)
    return Place.parse(sweep.recipe.storage) / "sweeps" / f"{space.name}-{key}"


def run_sweep(sweep: Sweep, console: Console) -> Place:
    """Run all trials that are not done yet; return where the sweep lies."""
    steps = sweep.plan(sweep.recipe)
    place = place_of(sweep, steps)
    journal = Journal(place)
    with only_one(place) as still_ours:
        records = journal.read()
        search = Search(sweep.space, records.values())
        if not search.left and (place / PAGE).exists():
            console.print(f"[green]✓[/] {sweep.space.name}: all trials are done, nothing to do", highlight=False)
            return place
        (place / PAGE).delete()
        with cluster.session(console), _tracked(sweep, place, console) as tracker:
            for record in records.values():
                if record.state in ("done", "stopped"):
                    tracker.settle(*_named(record.trial), _figures(sweep.space, record), STATUS[record.state])
            if search.left:
                _share(sweep, steps, console)
                _tune(Following(sweep, journal, records, search, tracker, console), steps, still_ours)
            still_ours()
            _conclude(sweep, place, tracker)
    return place


@contextlib.contextmanager
def _tracked(sweep: Sweep, place: Place, console: Console) -> Iterator[Tracker]:
    """The MLflow run of the sweep, the parent of its trials; the same one whenever the sweep goes on."""
    experiment = sweep.recipe.experiment or sweep.space.name
    named = sweep.recipe.model_copy(update={"name": f"{sweep.space.name} (sweep)", "experiment": experiment})
    tracker = Tracker.start(named, place.name, console, "sweep")
    status = "FAILED"
    try:
        yield tracker
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        tracker.end(status)


def shared(sweep: Sweep, steps: list[Step]) -> list[Step]:
    """The steps that are the same in all trials: no end of a range, and no seed, changes them."""
    space, known = sweep.space, digests(steps)
    changes = [
        {path: value}
        for path, given in space.parameters.items()
        for value in given.examples()[:: max(1, len(given.examples()) - 1)]
    ]
    points = [(values, space.seeds[0]) for values in changes] + [({}, seed) for seed in space.seeds]
    plans = [sweep.plan(sweep.varied(values, seed), known) for values, seed in points]
    alike = set.intersection(*({step.fingerprint for step in plan} for plan in plans))
    return [step for step in plans[0] if step.fingerprint in alike]


def digests(steps: list[Step]) -> dict[str, str]:
    return {place: digest for step in steps for place, digest in step.sources.items()}


def _share(sweep: Sweep, steps: list[Step], console: Console) -> None:
    """Make what all trials have in common, once."""
    done: dict[str, Artifact] = {}
    for step in shared(sweep, steps):
        found = step.found()
        if found:
            console.print(f"[green]✓[/] {step.stage.name:<9} complete, kept", highlight=False)
        done[step.stage.name] = found or pipeline.execute(step, done, NOTHING, console, Telling(lambda event: None))


def _tune(following: Following, steps: list[Step], still_ours: Check) -> None:
    """Have Tune run the trials."""
    defaults = {
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the records say all
        "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Tune would take an interrupt for the end of the sweep
        "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # most of what a trial says is not for the scheduler
        "TUNE_WARN_THRESHOLD_S": "60",
        "RAY_AIR_NEW_OUTPUT": "0",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import tune

    from babelray.storage.arrow import kept_in

    if not os.environ.get("BABELRAY_DEBUG"):
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a lost process is told of in a line of our own

    space, place = following.sweep.space, following.place
    terms = Terms(following.sweep, digests(steps), following.locks)
    # A byte of memory: Tune must ask for something, and whole CPUs are to be left for the stages.
    function = tune.with_resources(tune.with_parameters(trainable, terms=terms), {"cpu": 0, "memory": 1})
    tuner = tune.Tuner(
        function,
        tune_config=tune.TuneConfig(
            search_alg=_searcher(following.search),
            scheduler=_scheduler(space, following.records, _steps(following.sweep)),
            num_samples=following.search.left,
            max_concurrent_trials=following.concurrent,
            reuse_actors=space.scheduler == "fifo",  # one that was stopped is killed, with all that it started
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="tune",
            **kept_in(place),
            callbacks=[_callback(following)],
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=FAILURES),
        ),
    )
    with following.board:
        try:
            tuner.fit()
        finally:
            ray.kill(following.locks)
            still_ours()  # else what lies there is the other one's
            following.abandon()
            (place / "tune").delete()
    if following.wrong:
        raise following.wrong


def _steps(sweep: Sweep) -> int:
    training = getattr(sweep.recipe, "pretrain", None)
    return training.steps if training else 1


def _searcher(search: Search) -> Any:
    """Tune's view of the search."""
    from ray.tune.search import Searcher

    class Searching(Searcher):  # type: ignore[misc]
        def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
            return True

        def suggest(self, trial_id: str) -> dict[str, Any] | str:
            trial = search.next()
            if trial is None:
                return str(Searcher.FINISHED)
            return {"trial": {"point": trial.point, "values": trial.values, "seed": trial.seed}}

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            pass

        def save(self, checkpoint_path: str) -> None:
            pass

        def restore(self, checkpoint_path: str) -> None:
            pass

        def __reduce__(self) -> Any:
            """Tune writes itself down so that it could be restored; here the records do that."""
            return Searcher, ()

    return Searching()


def _scheduler(space: Space, records: dict[str, Record], steps: int) -> Any:
    """What decides which trainings go on; it is told what earlier ones had measured."""
    from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler

    if space.scheduler == "fifo":
        return FIFOScheduler()
    asha = space.asha
    scheduler = AsyncHyperBandScheduler(
        time_attr=STEP,
        metric=WATCHED,
        mode=asha.metric.mode,
        max_t=max(steps, asha.grace),
        grace_period=asha.grace,
        reduction_factor=asha.factor,
        stop_last_trials=False,
    )
    for key, record in records.items():
        if record.state in ("done", "stopped"):
            known = SimpleNamespace(trial_id=key)
            scheduler.on_trial_add(None, known)
            for step, value in record.reports:
                scheduler.on_trial_result(None, known, {STEP: step, WATCHED: value})
    return scheduler


class Following:
    """What the driver does with what trials say: records, the board, MLflow, the search."""

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
        self.place = journal.place.parent
        again = {"max_restarts": -1, "max_task_retries": -1}  # it may be lost; then nobody holds anything
        self.locks = ray.remote(num_cpus=0, scheduling_strategy=cluster.beside_this(), **again)(Locks).remote()
        space = sweep.space
        self.concurrent = space.concurrent or max(1, int(ray.cluster_resources().get("CPU", 1)) // 2)
        self.board = Board(space, console, records, space.points * len(space.seeds), self.concurrent)
        self.runs: dict[str, ChildRun] = {}
        self.wrong: RecipeError | None = None

    def started(self, trial: Trial) -> None:
        """Also after its process was lost: then it has a record already, and its run."""
        if trial.key in self.runs:
            return
        earlier = self.records.get(trial.key)
        record = self.records[trial.key] = Record(trial)
        if earlier and earlier.state == "running":
            record.reports = earlier.reports
        self.board.start(record)
        self.journal.write(record)
        self.runs[trial.key] = self.tracker.trial(*_named(trial))

    def told(self, trial: Trial, event: Event) -> None:
        record, run = self.records[trial.key], self.runs[trial.key]
        if "stage" in event:
            record.at = event["stage"]
            self.journal.write(record)
        elif "values" in event:
            record.at = f"step {event['step']}"
            run.metrics(event["values"], event["step"])
            watched = self.sweep.space.asha.metric.name
            if self.sweep.space.scheduler == "asha" and watched in event["values"]:
                record.reports.append((event["step"], event["values"][watched]))
                self.journal.write(record)
        elif "metrics" in event:
            record.metrics = event["metrics"]
            self._judge(record)
        elif "error" in event:
            record.state, record.error = "failed", event["error"]

    def _judge(self, record: Record) -> None:
        try:
            figures = {metric.title: measured(record.metrics, metric) for metric in self.sweep.space.metrics}
        except RecipeError as error:  # the next trial would have no such figure either
            self.wrong = error
            self.search.stop()
            record.state, record.error = "failed", error.problem
            return
        bad = [f"{name} is {value}" for name, value in figures.items() if not math.isfinite(value)]
        record.state, record.error = ("failed", ", ".join(bad)) if bad else ("done", "")

    def over(self, trial: Trial, holder: str, error: str = "") -> None:
        """A trial that ended without having said how was stopped by the scheduler, or lost."""
        record, run = self.records[trial.key], self.runs[trial.key]
        self.locks.release.remote(holder)
        if error and record.state == "running":
            record.state, record.error = "failed", error
        elif record.state == "running":
            record.state = "stopped"
        record.seconds, record.at = round(self.board.seconds(record), 1), ""
        self.journal.write(record)
        self.search.finished(record)
        run.metrics(_figures(self.sweep.space, record), None)
        if record.error:
            run.text("error.txt", record.error)
        run.end(STATUS[record.state])
        self.board.end(record)

    def abandon(self) -> None:
        """Close the runs of trials that were going on when the sweep was interrupted."""
        for key, run in self.runs.items():
            if self.records[key].state == "running":
                run.end("KILLED")


def _named(trial: Trial) -> tuple[str, str, dict[str, Any]]:
    """The name, the key and the parameters of a trial's run."""
    return f"point {trial.point}, seed {trial.seed}", trial.key, {**trial.values, "trial_seed": trial.seed}


def _figures(space: Space, record: Record) -> dict[str, float]:
    """What MLflow is told of a trial that is over: also the means that metrics stand for, by their own names."""
    judged = {m.title: measured(record.metrics, m) for m in space.metrics} if record.state == "done" else {}
    return record.metrics | judged | {"seconds": record.seconds}


def _callback(following: Following) -> Any:
    """Tune's view of the one who follows."""
    from ray.tune import Callback

    def of(trial: Any) -> Trial:
        return Trial(**trial.config["trial"])

    class Calling(Callback):  # type: ignore[misc]
        def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            following.started(of(trial))

        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            following.told(of(trial), result.get("event", {}))

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            following.over(of(trial), trial.trial_id)

        def on_trial_recover(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            following.board.say(f"its process was lost, it is started again: {of(trial).label()}")

        def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            following.over(of(trial), trial.trial_id, f"its process was lost {FAILURES + 1} times")

        def __reduce__(self) -> Any:
            return Callback, ()

    return Calling()


def _conclude(sweep: Sweep, place: Place, tracker: Tracker) -> None:
    """Write the best recipe and the page."""
    import ray

    records = list(Journal(place).read().values())
    chosen = best(sweep.space, points(sweep.space, records))
    if chosen:
        recipe = sweep.varied(chosen.values, sweep.space.seeds[0])
        text = recipe.model_copy(update={"name": f"{sweep.space.name}-best"}).to_yaml()
        (place / BEST).write_text(f"# The best point of the sweep {sweep.space.name}, number {chosen.number}.\n{text}")
        tracker.file(place / BEST)
        tracker.metrics({f"best/{metric.title}": chosen.mean(metric) for metric in sweep.space.metrics})
    apart = ray.remote(num_cpus=0, scheduling_strategy=cluster.beside_this())(sweep_page)
    drawing = apart.remote(sweep.space, records)  # it takes more memory than all else here
    (place / PAGE).write_text(ray.get(drawing))
    tracker.file(place / PAGE)


def show_plan(sweep: Sweep, console: Console) -> None:
    """What a sweep would do."""
    space, steps = sweep.space, sweep.plan(sweep.recipe)
    once = [step.stage.name for step in shared(sweep, steps)]
    each = [step.stage.name for step in steps if step.stage.name not in once]
    search = Search(space, Journal(place_of(sweep, steps)).read().values())
    console.print(f"{space.name}: {space.points} points x {len(space.seeds)} seeds, {search.left} trials to do")
    console.print(f"once for all: {', '.join(once) or 'nothing'}; in each trial: {', '.join(each)}", highlight=False)
    console.print(f"place: {place_of(sweep, steps)}", highlight=False, soft_wrap=True)
    for path, given in space.parameters.items():
        told = next((f"{kind} {value}" for kind, value in given if value is not None), "")
        paper = f"; the paper's {space.paper[path]}" if path in space.paper else ""
        console.print(f"  {path}: {told}{paper}", highlight=False, markup=False)


def show_status(sweep: Sweep, console: Console) -> None:
    """The trials of a sweep, while it runs or afterwards."""
    place = place_of(sweep, sweep.plan(sweep.recipe))
    if not Journal(place).read():
        raise BabelrayError(f"the sweep {sweep.space.name} has not begun: nothing lies at {place}", "Start it first.")
    show_results(sweep, place, console)


def show_results(sweep: Sweep, place: Place, console: Console) -> None:
    """The table of trials, the best point, and where the page and the best recipe lie."""
    records = list(Journal(place).read().values())
    console.print(trial_table(sweep.space, records))
    told = summary(sweep.space, records, sweep.space.points * len(sweep.space.seeds))
    console.print(told, highlight=False, markup=False)
    for title, name in (("Sweep:", PAGE), ("Best:", BEST)):
        if (place / name).exists():
            console.print(f"{title:<10} {place / name}", soft_wrap=True, highlight=False)
