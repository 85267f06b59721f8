"""Running a plan: every stage once, complete artifacts reused, everything tracked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from babelray.cluster import session as cluster
from babelray.cluster.progress import Progress
from babelray.pipeline.force import ForcedStages, forced_stages
from babelray.pipeline.plan import PlanPart, Step, results
from babelray.pipeline.preflight import checked_plan
from babelray.pipeline.stage import Job
from babelray.storage import artifact
from babelray.storage.artifact import Artifact
from babelray.storage.lock import exclusive_lock
from babelray.tracking.tracker import Tracker, is_registered

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.recipe.run import Run

Artifacts = Mapping[str, Artifact]
"""Complete artifacts by their fingerprints."""


class StageTracker(Protocol):
    """What receives the events of stages: a tracker, or a substitute."""

    def stage(self, name: str, fingerprint: str, code: str) -> contextlib.AbstractContextManager[Any]: ...


@dataclass(frozen=True)
class RunResult(Mapping[str, Artifact]):
    """The steps of a run and their artifacts. As a mapping: the artifact of each stage by its name."""

    steps: Sequence[Step]
    artifacts: Artifacts

    def __getitem__(self, stage: str) -> Artifact:
        for step in reversed(self.steps):
            if step.name == stage:
                return self.artifacts[step.fingerprint]
        raise KeyError(stage)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(step.name for step in self.steps))

    def __len__(self) -> int:
        return len({step.name for step in self.steps})

    def results(self) -> list[tuple[Step, Artifact]]:
        """The steps whose artifacts no other step reads, apart from those that only follow."""
        return [(step, self.artifacts[step.fingerprint]) for step in results(self.steps)]


def run(recipe: Run, console: Console, until: str | None = None, force: str | None = None) -> RunResult:
    """Make every artifact of a run, simulation or comparison that is not complete, after all checks of `preflight`.

    `force` makes a stage and its successors again.
    """
    plan = checked_plan(recipe, until, force)
    parts, steps = plan.parts, plan.steps
    artifacts: dict[str, Artifact] = {}
    with announced_force(steps, force, recipe, console) as forced:
        if len(parts) == 1:
            _run_part(parts[0], artifacts, forced, console)
        else:
            _run_comparison(parts, steps, artifacts, forced, console)
    return RunResult(steps, artifacts)


@contextlib.contextmanager
def announced_force(steps: Sequence[Step], force: str | None, recipe: Run, console: Console) -> Iterator[ForcedStages]:
    """`forced_stages`, with a message if an interrupted one is resumed."""
    with forced_stages(steps, force, recipe.storage) as forced:
        if forced.resumes:
            console.print(f"resuming an interrupted --force {force}", highlight=False)
        yield forced


def _run_comparison(
    parts: Sequence[PlanPart],
    steps: Sequence[Step],
    artifacts: dict[str, Artifact],
    forced: ForcedStages,
    console: Console,
) -> None:
    """Train every variant with every seed, then compare; all on one connection to the cluster."""
    artifacts |= completed(steps, forced)
    if len(artifacts) == len(steps):
        _print_nothing_to_do(parts[-1].recipe.name, steps, console)
        return
    with cluster.session(console):
        for part in parts[:-1]:
            if all(step.fingerprint in artifacts for step in part.steps):
                console.print(f"[green]✓[/] {part.name}: complete, kept", highlight=False)
            else:
                console.print(f"[bold]{part.name}[/]", highlight=False)
                _run_part(part, artifacts, forced, console)
        _run_part(parts[-1], artifacts, forced, console)


def _run_part(part: PlanPart, artifacts: dict[str, Artifact], forced: ForcedStages, console: Console) -> None:
    """Make the artifacts of all steps that are not complete, in one tracked run."""
    recipe, steps = part.recipe, part.steps
    artifacts |= completed([step for step in steps if step.fingerprint not in artifacts], forced)
    complete = {step.fingerprint for step in steps if step.fingerprint in artifacts}
    if len(complete) == len(steps) and _is_registered(recipe, steps, artifacts, console):
        _print_nothing_to_do(part.name, steps, console)
        return
    with tracked(recipe, steps[-1].fingerprint, console) as tracker:
        for step in steps:
            if step.fingerprint in complete:
                _print_complete(step, console)
            else:
                artifacts[step.fingerprint] = execute(step, artifacts, forced, console, tracker)
        if recipe.registered_name and (encoder := _trained_encoder(steps, artifacts)):
            tracker.register(recipe.registered_name, encoder)


def completed(steps: Sequence[Step], forced: ForcedStages) -> dict[str, Artifact]:
    """The artifacts that are complete and need not be made again, by fingerprint."""
    return {
        step.fingerprint: complete
        for step in steps
        if not forced.includes(step) and (complete := step.load()) is not None
    }


@contextlib.contextmanager
def tracked(recipe: Run, key: str, console: Console) -> Iterator[Tracker]:
    """Connected to the cluster and to the tracking server."""
    with Tracker.open(recipe.description(), key, console) as tracker, cluster.session(console):
        yield tracker


def execute(
    step: Step, artifacts: Artifacts, forced: ForcedStages, console: Console, tracker: StageTracker
) -> Artifact:
    """Make the artifact of a step from those of earlier ones."""
    with contextlib.ExitStack() as stack:
        check_lock_held = stack.enter_context(exclusive_lock(step.location))
        forced.begin(step)
        if not forced.includes(step) and (complete := step.load()) is not None:  # another run has made it meanwhile
            _print_complete(step, console)
            return complete
        child = stack.enter_context(tracker.stage(step.name, step.fingerprint, step.code))
        made = artifact.finish(step.location, check_lock_held)
        if made is not None:
            _print_complete(step, console)
        else:
            progress = stack.enter_context(Progress(console, step.name))
            manifest = _run_stage(step, artifacts, progress, child.metrics)
            made = artifact.publish(step.location, manifest, check_lock_held)
            stack.callback(_print_duration, step, made, console)
        child.finish(made, scores_run=step.stage.scores_run)
        forced.mark_done(step)
    return made


def _run_stage(step: Step, artifacts: Artifacts, progress: Progress, track: Any) -> dict[str, Any]:
    """Run the stage; returns the manifest of its artifact."""

    def notify(message: str) -> None:
        progress.console.print(f"  {message}", highlight=False)

    inputs = {name: artifacts[key] for name, key in step.inputs.items()}
    out = artifact.partial_of(step.location)
    metrics = step.stage.run(Job(step.settings, inputs, out, progress, track, notify, step.parts))
    if progress.peak_bytes:
        metrics = metrics | {"peak_memory_bytes": progress.peak_bytes}
    return {
        "stage": step.name,
        "fingerprint": step.fingerprint,
        "settings": step.settings.model_dump(mode="json"),
        "inputs": {n: {"fingerprint": key, "location": str(inputs[n].location)} for n, key in step.inputs.items()},
        "sources": dict(step.sources),
        "parts": dict(step.parts),
        "code": step.code,
        **artifact.provenance(),
        "seconds": round(progress.seconds, 1),
        "metrics": metrics,
    }


def _trained_encoder(steps: Sequence[Step], artifacts: Artifacts) -> Artifact | None:
    return next((artifacts[step.fingerprint] for step in steps if step.stage.trains_encoder), None)


def _is_registered(recipe: Run, steps: Sequence[Step], artifacts: Artifacts, console: Console) -> bool:
    """Whether the trained encoder, if it is to be registered, is in the registry."""
    encoder = _trained_encoder(steps, artifacts)
    if not recipe.registered_name or encoder is None:
        return True
    return is_registered(recipe.registered_name, encoder, recipe.storage, console)


def _print_nothing_to_do(name: str, steps: Sequence[Step], console: Console) -> None:
    stages = f"all {len(steps)} stages are" if len(steps) > 1 else "the stage is"
    console.print(f"[green]✓[/] {name}: {stages} complete, nothing to do")
    for step in steps:
        console.print(f"  {step.name:<9} {step.location}", highlight=False, soft_wrap=True)


def _print_complete(step: Step, console: Console) -> None:
    console.print(f"[green]✓[/] {step.name:<9} complete, kept", highlight=False)


def _print_duration(step: Step, made: Artifact, console: Console) -> None:
    if not console.is_terminal:
        console.print(f"✓ {step.name:<9} {made.manifest['seconds']:.0f} s", highlight=False)
