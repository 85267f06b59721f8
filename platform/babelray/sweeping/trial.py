"""What one trial does: the stages of its recipe, as far as no other trial has done them already.

Tune runs `trainable` in an actor inside a placement group that has next to nothing, and would hold every task that the
actor starts in there too: they would wait for ever. So the stages run in a task beside the actor, outside of the group.
It asks for no CPU itself; the workers and tasks of the stages get all that the cluster has.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.cluster import beside_this
from babelray.errors import BabelrayError
from babelray.sweeping.records import Trial, flat

if TYPE_CHECKING:
    from babelray.stages.artifact import Artifact
    from babelray.stages.pipeline import Step
    from babelray.sweeping.space import Sweep

Event = dict[str, Any]
"""`{"stage": name}`, `{"step": number, "values": figures}`; at the end `{"metrics": figures}` or `{"error": text}`."""
STEP, WATCHED = "step", "watched"
"""What the scheduler sees of a training."""


@dataclass(frozen=True)
class Terms:
    """What all trials of a sweep have in common."""

    sweep: Sweep
    known: Mapping[str, str]
    """Digests of the files that stages read, so that they are read once."""
    locks: Any


class Locks:
    """An actor that says who makes which artifact, so that no two trials make the same one at a time."""

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}

    def take(self, place: str, holder: str) -> bool:
        return self._holders.setdefault(place, holder) == holder

    def release(self, holder: str) -> None:
        """Free all that a trial holds: when it has made an artifact, and when it is over, however it ended."""
        self._holders = {place: other for place, other in self._holders.items() if other != holder}


def trainable(config: dict[str, Any], terms: Terms) -> None:
    """What Tune calls: have the trial done, and pass on what it says."""
    import ray
    from ray import tune

    outside = {"num_cpus": 0, "scheduling_strategy": beside_this()}
    remote = ray.remote(max_retries=0, num_returns="streaming", **outside)(_work)
    asha = terms.sweep.space.asha
    for said in remote.remote(terms, Trial(**config["trial"]), tune.get_context().get_trial_id()):
        event: Event = ray.get(said)
        seen = {}
        if asha.metric.name in event.get("values", {}):
            seen = {STEP: event["step"], WATCHED: event["values"][asha.metric.name]}
        tune.report({"event": event, **seen})


def _work(terms: Terms, trial: Trial, holder: str) -> Iterator[Event]:
    """Do the trial in a thread, and give what it says while it goes on."""
    import ray

    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            events.put({"metrics": run_trial(terms, trial, holder, events.put)})
        except BabelrayError as error:
            events.put({"error": str(error)})
        except Exception as error:
            events.put({"error": f"{type(error).__name__}: {str(error).strip()[-2000:]}"})
        finally:
            ray.get(terms.locks.release.remote(holder))
            events.put(None)

    threading.Thread(target=work, name="babelray-trial", daemon=True).start()
    while (event := events.get()) is not None:
        yield event


def run_trial(terms: Terms, trial: Trial, holder: str, tell: Callable[[Event], None]) -> dict[str, float]:
    """The figures of all stages of a trial; where two have the same name, those of the later stage."""
    sweep = terms.sweep
    done: dict[str, Artifact] = {}
    for step in sweep.plan(sweep.varied(trial.values, trial.seed), terms.known):
        done[step.stage.name] = _made(terms, step, done, holder, tell)
    return {name: value for made in done.values() for name, value in flat(made.metrics).items()}


def _made(terms: Terms, step: Step, done: dict[str, Artifact], holder: str, tell: Callable[[Event], None]) -> Artifact:
    """The artifact of a step: as it was found, as another trial makes it, or made here."""
    import ray
    from rich.console import Console

    from babelray.stages import pipeline
    from babelray.stages.redo import NOTHING

    if found := step.found():
        return found
    tell({"stage": step.stage.name})
    while not ray.get(terms.locks.take.remote(str(step.place), holder)):
        time.sleep(0.5)
    try:
        return step.found() or pipeline.execute(step, done, NOTHING, Console(quiet=True), Telling(tell))
    finally:
        ray.get(terms.locks.release.remote(holder))


class Telling:
    """Takes the place of the tracker in a trial: the driver alone talks to MLflow."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell

    @contextlib.contextmanager
    def stage(self, name: str, step: Step) -> Iterator[Telling]:
        yield self

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        whole = {name: value for name, value in values.items() if not name.startswith(("language/", "speed/"))}
        self._tell({"step": step, "values": whole})

    def finish(self, artifact: Artifact) -> None:
        """The figures of all stages are told at the end of the trial."""
