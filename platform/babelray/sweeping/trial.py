"""One trial: the stages of its recipe, as far as no other trial has completed them.

Tune runs `trainable` in an actor inside a placement group with almost no resources, and would place every task that the
actor starts inside it too, where they would wait forever. So the stages run in a task beside the actor, outside of the
group. The task asks for no CPU itself; the workers and tasks of the stages get all that the cluster has.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.cluster.session import this_node
from babelray.errors import BabelrayError
from babelray.sweeping.records import Trial, flatten

if TYPE_CHECKING:
    from babelray.pipeline.plan import Digests, Step
    from babelray.storage.artifact import Artifact
    from babelray.sweeping.space import Sweep

Event = dict[str, Any]
"""`{"stage": name}`, `{"step": number, "values": metrics}`; at the end `{"metrics": metrics}` or `{"error": text}`."""
OnEvent = Callable[[Event], None]
STEP, SCHEDULED = "step", "scheduled"
"""What the scheduler sees of a training: its step, and the metric that it is compared by."""


@dataclass(frozen=True)
class TrialContext:
    """What all trials of a sweep share."""

    sweep: Sweep
    digests: Digests
    """Digests of the files that stages read, so that they are computed once."""
    locks: Any


class Locks:
    """An actor that records which trial makes which artifact, so that no two trials make the same one at a time."""

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}

    def take(self, location: str, holder: str) -> bool:
        return self._holders.setdefault(location, holder) == holder

    def release(self, holder: str) -> None:
        """Free all that a trial holds: when it has made an artifact, and when it is over, however it ended."""
        self._holders = {location: other for location, other in self._holders.items() if other != holder}


def trainable(config: dict[str, Any], context: TrialContext) -> None:
    """The function that Tune calls: run the trial in a task, and report its events."""
    import ray
    from ray import tune

    outside = {"num_cpus": 0, "scheduling_strategy": this_node()}
    remote = ray.remote(max_retries=0, num_returns="streaming", **outside)(_events_of_trial)
    asha = context.sweep.space.asha
    for reference in remote.remote(context, Trial(**config["trial"]), tune.get_context().get_trial_id()):
        event: Event = ray.get(reference)
        scheduled = {}
        if asha.metric.name in event.get("values", {}):
            scheduled = {STEP: event["step"], SCHEDULED: event["values"][asha.metric.name]}
        tune.report({"event": event, **scheduled})


def _events_of_trial(context: TrialContext, trial: Trial, holder: str) -> Iterator[Event]:
    """Run the trial in a thread, and yield its events while it runs."""
    import ray

    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            events.put({"metrics": run_trial(context, trial, holder, events.put)})
        except BabelrayError as error:
            events.put({"error": str(error)})
        except Exception as error:
            events.put({"error": f"{type(error).__name__}: {str(error).strip()[-2000:]}"})
        finally:
            ray.get(context.locks.release.remote(holder))
            events.put(None)

    threading.Thread(target=work, name="babelray-trial", daemon=True).start()
    while (event := events.get()) is not None:
        yield event


def run_trial(context: TrialContext, trial: Trial, holder: str, on_event: OnEvent) -> dict[str, float]:
    """The metrics of all stages of a trial; where two have the same name, those of the later stage."""
    sweep = context.sweep
    artifacts: dict[str, Artifact] = {}
    for step in sweep.plan(sweep.varied(trial.values, trial.seed), context.digests):
        artifacts[step.fingerprint] = _make(context, step, artifacts, holder, on_event)
    return {name: value for artifact in artifacts.values() for name, value in flatten(artifact.metrics).items()}


def _make(
    context: TrialContext, step: Step, artifacts: Mapping[str, Artifact], holder: str, on_event: OnEvent
) -> Artifact:
    """The artifact of a step: complete already, made by another trial meanwhile, or made here."""
    import ray
    from rich.console import Console

    from babelray.pipeline import execution
    from babelray.pipeline.force import NO_FORCE

    if complete := step.load():
        return complete
    on_event({"stage": step.name})
    while not ray.get(context.locks.take.remote(str(step.location), holder)):
        time.sleep(0.5)
    try:
        quiet, tracker = Console(quiet=True), EventTracker(on_event)
        return step.load() or execution.execute(step, artifacts, NO_FORCE, quiet, tracker)
    finally:
        ray.get(context.locks.release.remote(holder))


class EventTracker:
    """The tracker of a trial's stages. It sends events: only the driver talks to MLflow."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event

    @contextlib.contextmanager
    def stage(self, name: str, fingerprint: str, code: str) -> Iterator[EventTracker]:
        yield self

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        overall = {name: value for name, value in values.items() if not name.startswith(("language/", "speed/"))}
        self._on_event({"step": step, "values": overall})

    def finish(self, artifact: Artifact, scores_run: bool = False) -> None:
        """Nothing: the metrics of all stages are sent at the end of the trial."""
