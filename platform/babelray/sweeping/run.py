"""A sweep: trials on Ray Tune, shown in the terminal and in MLflow, then a page and the best recipe.

A sweep is at `<storage>/sweeps/<name>-<key>`: `trials/`, a record of each; at the end `sweep.html` and `best.yaml`.
After an interruption the same command resumes: trials that are done are kept, those that were running resume from the
checkpoints of their stages, failed ones are tried again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from babelray.cluster import session as cluster
from babelray.errors import BabelrayError, CollectedErrors
from babelray.pipeline import execution
from babelray.pipeline.force import NO_FORCE
from babelray.pipeline.preflight import checked_plan
from babelray.storage import Location, artifact
from babelray.storage.lock import exclusive_lock
from babelray.sweeping.board import summary, trial_table
from babelray.sweeping.driver import STATUS, SweepDriver, metrics_of, run_of
from babelray.sweeping.page import sweep_page
from babelray.sweeping.records import Journal
from babelray.sweeping.results import best_point, completed_points
from babelray.sweeping.search import Search
from babelray.sweeping.trial import EventTracker
from babelray.sweeping.tuning import tune_trials
from babelray.tracking.tracker import Tracker

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.pipeline.plan import Step
    from babelray.storage.artifact import Artifact
    from babelray.sweeping.space import Sweep

PAGE, BEST = "sweep.html", "best.yaml"


def location_of(sweep: Sweep, steps: Sequence[Step]) -> Location:
    """The folder of a sweep. It depends on all that decides the results, not on the number of trials."""
    space = sweep.space
    key = artifact.fingerprint(space=space.identity(), order=list(space.parameters), base=steps[-1].fingerprint)
    return Location.parse(sweep.recipe.storage) / "sweeps" / f"{space.name}-{key}"


def run_sweep(sweep: Sweep, console: Console) -> Location:
    """Run all trials that are not done yet; return the folder of the sweep."""
    check_trials(sweep)
    steps = sweep.plan(sweep.recipe)
    location = location_of(sweep, steps)
    journal = Journal(location)
    with exclusive_lock(location) as check_lock_held:
        records = journal.read()
        search = Search(sweep.space, records.values())
        if not search.remaining and (location / PAGE).exists():
            console.print(f"[green]✓[/] {sweep.space.name}: all trials are done, nothing to do", highlight=False)
            return location
        (location / PAGE).delete()
        with cluster.session(console), _tracked(sweep, location, console) as tracker:
            for record in records.values():
                if record.state in ("done", "stopped"):
                    tracker.settle(*run_of(record.trial), metrics_of(sweep.space, record), STATUS[record.state])
            if search.remaining:
                _run_shared_steps(sweep, steps, console)
                driver = SweepDriver(sweep, journal, records, search, tracker, console)
                tune_trials(driver, digests(steps), check_lock_held)
            check_lock_held()
            _write_results(sweep, location, tracker)
    return location


def check_trials(sweep: Sweep) -> None:
    """Raise an error with all problems of the recipe, as it is and with the first and last value of each parameter."""
    errors = CollectedErrors()
    stage, known = sweep.space.stage, dict[str, str]()
    with errors.attempt():
        known = digests(checked_plan(sweep.recipe, stage).steps)
    for path, parameter in sweep.space.parameters.items():
        for value in (parameter.examples()[0], parameter.examples()[-1]):
            with errors.attempt():
                checked_plan(sweep.varied({path: value}, sweep.space.seeds[0]), stage, digests=known)
    errors.raise_any()


@contextlib.contextmanager
def _tracked(sweep: Sweep, location: Location, console: Console) -> Iterator[Tracker]:
    """The MLflow run of the sweep, the parent of its trials; the same one whenever the sweep resumes."""
    experiment = sweep.recipe.experiment or sweep.space.name
    description = dataclasses.replace(
        sweep.recipe.description(), name=f"{sweep.space.name} (sweep)", experiment=experiment
    )
    with Tracker.open(description, location.name, console, "sweep") as tracker:
        yield tracker


def shared_steps(sweep: Sweep, steps: Sequence[Step]) -> list[Step]:
    """The steps that are the same in all trials: no end of a range, and no seed, changes them."""
    space, known = sweep.space, digests(steps)
    changes = [
        {path: value}
        for path, parameter in space.parameters.items()
        for value in parameter.examples()[:: max(1, len(parameter.examples()) - 1)]
    ]
    points = [(values, space.seeds[0]) for values in changes] + [({}, seed) for seed in space.seeds]
    plans = [sweep.plan(sweep.varied(values, seed), known) for values, seed in points]
    alike = set.intersection(*({step.fingerprint for step in plan} for plan in plans))
    return [step for step in plans[0] if step.fingerprint in alike]


def digests(steps: Sequence[Step]) -> dict[str, str]:
    """The digests of all files that some steps read."""
    return {location: digest for step in steps for location, digest in step.sources.items()}


def _run_shared_steps(sweep: Sweep, steps: Sequence[Step], console: Console) -> None:
    """Make the artifacts that all trials share, once."""
    artifacts: dict[str, Artifact] = {}
    for step in shared_steps(sweep, steps):
        complete = step.load()
        if complete:
            console.print(f"[green]✓[/] {step.name:<9} complete, kept", highlight=False)
        artifacts[step.fingerprint] = complete or execution.execute(
            step, artifacts, NO_FORCE, console, EventTracker(lambda event: None)
        )


def _write_results(sweep: Sweep, location: Location, tracker: Tracker) -> None:
    """Write the best recipe and the page."""
    import ray

    records = list(Journal(location).read().values())
    best = best_point(sweep.space, completed_points(sweep.space, records))
    if best:
        recipe = sweep.varied(best.values, sweep.space.seeds[0])
        text = recipe.model_copy(update={"name": f"{sweep.space.name}-best"}).to_yaml()
        (location / BEST).write_text(f"# The best point of the sweep {sweep.space.name}, number {best.number}.\n{text}")
        tracker.file(location / BEST)
        tracker.metrics({f"best/{metric.title}": best.mean(metric) for metric in sweep.space.metrics})
    # In a process of its own, since it takes more memory than all else here.
    render = ray.remote(num_cpus=0, scheduling_strategy=cluster.this_node())(sweep_page)
    (location / PAGE).write_text(ray.get(render.remote(sweep.space, records)))
    tracker.file(location / PAGE)


def show_plan(sweep: Sweep, console: Console) -> None:
    """Print what a sweep would do."""
    check_trials(sweep)
    space, steps = sweep.space, sweep.plan(sweep.recipe)
    once = [step.name for step in shared_steps(sweep, steps)]
    each = [step.name for step in steps if step.name not in once]
    search = Search(space, Journal(location_of(sweep, steps)).read().values())
    console.print(f"{space.name}: {space.points} points x {len(space.seeds)} seeds, {search.remaining} trials to do")
    console.print(
        f"shared by all trials: {', '.join(once) or 'nothing'}; in each trial: {', '.join(each)}", highlight=False
    )
    console.print(f"location: {location_of(sweep, steps)}", highlight=False, soft_wrap=True)
    for path, parameter in space.parameters.items():
        values = next((f"{kind} {value}" for kind, value in parameter if value is not None), "")
        paper = f"; published: {space.paper[path]}" if path in space.paper else ""
        console.print(f"  {path}: {values}{paper}", highlight=False, markup=False)


def show_status(sweep: Sweep, console: Console) -> None:
    """Print the trials of a sweep, while it runs or afterwards."""
    location = location_of(sweep, sweep.plan(sweep.recipe))
    if not Journal(location).read():
        raise BabelrayError(f"the sweep {sweep.space.name} has not begun: {location} is empty", "Start it first.")
    show_results(sweep, location, console)


def show_results(sweep: Sweep, location: Location, console: Console) -> None:
    """Print the table of trials, the best point, and the paths of the page and the best recipe."""
    records = list(Journal(location).read().values())
    console.print(trial_table(sweep.space, records))
    line = summary(sweep.space, records, sweep.space.points * len(sweep.space.seeds))
    console.print(line, highlight=False, markup=False)
    for title, name in (("Sweep:", PAGE), ("Best:", BEST)):
        if (location / name).exists():
            console.print(f"{title:<10} {location / name}", soft_wrap=True, highlight=False)
