"""A run: the stages in order, each done once, kept when complete, and traced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from babelray import cluster
from babelray.errors import ArtifactError, BabelrayError, RecipeError
from babelray.progress import Progress
from babelray.stages import artifact
from babelray.stages.align import AlignStage
from babelray.stages.artifact import Artifact
from babelray.stages.code_version import code_version
from babelray.stages.compare import CompareStage, run_name
from babelray.stages.corpus import CorpusStage
from babelray.stages.encoder import EncoderStage
from babelray.stages.evaluate import EvaluateStage
from babelray.stages.expose import ExposeStage
from babelray.stages.extract import ExtractStage
from babelray.stages.map import MapStage
from babelray.stages.pretrain import PretrainStage
from babelray.stages.redo import Redo, redoing
from babelray.stages.report import ReportStage
from babelray.stages.simulate import SimulateStage
from babelray.stages.stage import Job, Stage
from babelray.stages.stitch import StitchStage
from babelray.storage import Place
from babelray.storage.lock import only_one
from babelray.tracking.tracker import Tracker, is_registered

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.config import Config
    from babelray.recipe import Recipe
    from babelray.run import Run
    from babelray.simulation.config import Simulation

STAGES: tuple[Stage[Any], ...] = (
    CorpusStage(),
    EncoderStage(),
    ExtractStage(),
    AlignStage(),
    ExposeStage(),
    StitchStage(),
    MapStage(),
    PretrainStage(),
    EvaluateStage(),
    ReportStage(),
)


@dataclass(frozen=True)
class Step:
    """A stage with all that decides its result, and where the result lies or will lie."""

    stage: Stage[Any]
    settings: Config
    sources: Mapping[str, str]
    inputs: Mapping[str, str]
    code: str
    fingerprint: str
    place: Place

    def found(self) -> Artifact | None:
        """The complete artifact, if it is there."""
        return Artifact.load(self.place)


def plan(recipe: Recipe, until: str | None = None, known: Mapping[str, str] | None = None) -> list[Step]:
    """The steps of a run up to a stage, with their fingerprints; nothing is run, nothing is written.

    `known`: digests of sources that are not to be read again.
    """
    storage = Place.parse(recipe.storage)
    wanted = _needed(recipe, until)
    steps: dict[str, Step] = {}
    for stage in STAGES:
        if stage.name in wanted:
            inputs = {name: steps[name].fingerprint for name in stage.needs}
            steps[stage.name] = _step(stage, stage.settings(recipe), inputs, storage, known or {})
    return list(steps.values())


def _step(
    stage: Stage[Any],
    settings: Config,
    inputs: Mapping[str, str],
    storage: Place,
    known: Mapping[str, str] = MappingProxyType({}),
) -> Step:
    sources = {str(place): known.get(str(place)) or place.digest() for place in stage.sources(settings)}
    code = code_version(type(stage).__module__)
    # The content of a source counts, not the folder it was read from.
    key = artifact.fingerprint(
        stage=stage.name, settings=settings.identity(), sources=sorted(sources.values()), inputs=dict(inputs), code=code
    )
    return Step(stage, settings, sources, inputs, code, key, storage / stage.name / key)


def _needed(recipe: Recipe, until: str | None) -> set[str]:
    """The stages that lead to one; without one, all that the recipe has."""
    absent = {"pretrain"} if recipe.pretrain is None else set()
    absent |= {"expose"} if recipe.expose is None else set()
    absent |= {"stitch"} if recipe.stitch is None else set()
    absent |= {"map"} if recipe.map is None else set()
    for stage in STAGES:
        if absent & set(stage.needs):
            absent.add(stage.name)
    if until is None:
        return {stage.name for stage in STAGES} - absent
    _check_stage(until)
    if until in absent:
        key = until if until in ("pretrain", "expose", "stitch", "map") else "pretrain"
        raise RecipeError(f"this recipe has no {until}", f"Give it a key `{key}`.")
    needed = {until}
    for stage in reversed(STAGES):
        if stage.name in needed:
            needed.update(stage.needs)
    return needed


def _check_stage(name: str) -> None:
    names = [stage.name for stage in STAGES]
    if name not in names:
        raise RecipeError(f"there is no stage {name!r}", f"Stages: {', '.join(names)}.")


def run(recipe: Recipe, console: Console, until: str | None = None, force: str | None = None) -> dict[str, Artifact]:
    """Make every artifact of the run that is not complete yet; `force` makes a stage and those after it again."""
    steps = plan(recipe, until)
    with _redoing(steps, force, recipe, console) as redo:
        return _run(recipe, steps, redo, console)


@contextlib.contextmanager
def _redoing(steps: Sequence[Step], force: str | None, recipe: Run, console: Console) -> Iterator[Redo]:
    key = artifact.fingerprint(force=force, steps=[step.fingerprint for step in steps])
    with redoing(_forced(steps, force), recipe.storage, key) as redo:
        if redo.goes_on:
            console.print(f"going on with what an interrupted --force {force} had begun", highlight=False)
        yield redo


def _run(recipe: Recipe, steps: Sequence[Step], redo: Redo, console: Console) -> dict[str, Artifact]:
    done = {step.stage.name: found for step in steps if not redo.wants(step) and (found := step.found())}
    if len(done) == len(steps) and not _to_register(recipe, done, console):
        console.print(f"[green]✓[/] {recipe.name}: all {len(steps)} stages are complete, nothing to do")
        for step in steps:
            console.print(f"  {step.stage.name:<9} {step.place}", highlight=False, soft_wrap=True)
        return done
    with _tracked(recipe, steps[-1].fingerprint, console) as tracker:
        for step in steps:
            if step.stage.name in done:
                console.print(f"[green]✓[/] {step.stage.name:<9} complete, kept", highlight=False)
                continue
            done[step.stage.name] = execute(step, done, redo, console, tracker)
        if recipe.register_as and "pretrain" in done:
            tracker.register(recipe.register_as, done["pretrain"])
    return done


def _to_register(recipe: Recipe, done: Mapping[str, Artifact], console: Console) -> bool:
    """Whether all is made but the encoder is not in the registry yet."""
    if not recipe.register_as or "pretrain" not in done:
        return False
    return not is_registered(recipe.register_as, done["pretrain"], recipe.storage, console)


def compare(recipe: Recipe, console: Console, force: str | None = None) -> Artifact:
    """Train an encoder for every variant and seed, unless it is there already, and score them all."""
    runs = {
        run_name(variant, seed): recipe.variant(variant, seed) for variant in recipe.variants for seed in recipe.seeds
    }
    plans = {name: plan(varied, "pretrain") for name, varied in runs.items()}
    made: dict[str, Artifact] = {}
    prints: dict[str, str] = {}
    every = [step for steps in plans.values() for step in steps]
    with cluster.session(console), _redoing(every, force, recipe, console) as redo:
        for name, steps in plans.items():
            found = {step.stage.name: there for step in steps if not redo.wants(step) and (there := step.found())}
            if len(found) == len(steps):
                console.print(f"[green]✓[/] {name} complete, kept", highlight=False)
            else:
                console.print(f"[bold]{name}[/]", highlight=False)
                found = _run(runs[name], steps, redo, console)
            made |= {"corpus": found["corpus"], "encoder": found["encoder"], name: found["pretrain"]}
            prints |= {step.stage.name: step.fingerprint for step in steps} | {name: steps[-1].fingerprint}
        stage = CompareStage(list(recipe.variants), recipe.seeds)
        redo.stages |= {stage.name} if force else set()
        inputs = {name: prints[name] for name in stage.needs}
        step = _step(stage, stage.settings(recipe), inputs, Place.parse(recipe.storage))
        return _kept_or_made(recipe, step, made, redo, console)


def plan_simulation(recipe: Simulation) -> Step:
    """The only step of a simulation."""
    stage = SimulateStage()
    return _step(stage, stage.settings(recipe), {}, Place.parse(recipe.storage))


def simulate(recipe: Simulation, console: Console, force: str | None = None) -> Artifact:
    """Simulate what the recipe says, unless that is there already."""
    step = plan_simulation(recipe)
    with _redoing([step], force, recipe, console) as redo:
        return _kept_or_made(recipe, step, {}, redo, console)


def _kept_or_made(recipe: Run, step: Step, done: Mapping[str, Artifact], redo: Redo, console: Console) -> Artifact:
    """The artifact of one step, in a tracked run of its own if it is to be made."""
    if not redo.wants(step) and (found := step.found()) is not None:
        console.print(f"[green]✓[/] {step.stage.name:<9} complete, kept", highlight=False)
        return found
    with _tracked(recipe, step.fingerprint, console) as tracker:
        return execute(step, done, redo, console, tracker)


@contextlib.contextmanager
def _tracked(recipe: Run, key: str, console: Console) -> Iterator[Tracker]:
    """Connected to the cluster and to the tracking server."""
    tracker = Tracker.start(recipe, key, console)
    status = "FAILED"
    try:
        with cluster.session(console):
            yield tracker
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        tracker.end(status)


def _forced(steps: Sequence[Step], force: str | None) -> set[str]:
    if force is None:
        return set()
    names = list(dict.fromkeys(step.stage.name for step in steps))
    if force not in names:
        _check_stage(force)
        raise RecipeError(f"--force {force}: this command does not reach that stage", f"It runs {', '.join(names)}.")
    forced = {force}
    for step in steps:
        if forced & set(step.inputs):
            forced.add(step.stage.name)
    return forced


class Tracking(Protocol):
    """What is told of a stage: the tracker, or what takes its place."""

    def stage(self, name: str, step: Step) -> contextlib.AbstractContextManager[Any]: ...


def execute(step: Step, done: Mapping[str, Artifact], redo: Redo, console: Console, tracker: Tracking) -> Artifact:
    """Make the artifact of a step from those that are done."""
    name = step.stage.name
    out = artifact.partial_of(step.place)
    with contextlib.ExitStack() as stack:
        still_ours = stack.enter_context(only_one(step.place))
        redo.begin(step)
        if not redo.wants(step) and (found := step.found()) is not None:  # another run has made it meanwhile
            console.print(f"[green]✓[/] {name:<9} complete, kept", highlight=False)
            return found
        child = stack.enter_context(tracker.stage(name, step))
        if (made := artifact.finish(step.place, still_ours)) is not None:
            child.finish(made)
            redo.made(step)
            console.print(f"[green]✓[/] {name:<9} complete, kept", highlight=False)
            return made
        progress = stack.enter_context(Progress(console, name))
        say: Callable[[str], None] = lambda text: progress.console.print(f"  {text}", highlight=False)  # noqa: E731
        inputs = {needed: done[needed] for needed in step.stage.needs}
        job = Job(step.settings, inputs, out, progress, child.metrics, say)
        metrics = step.stage.run(job)
        if progress.peak_bytes:
            metrics = metrics | {"peak_memory_bytes": progress.peak_bytes}
        manifest = {
            "stage": name,
            "fingerprint": step.fingerprint,
            "settings": step.settings.model_dump(mode="json"),
            "inputs": {n: {"fingerprint": key, "place": str(done[n].place)} for n, key in step.inputs.items()},
            "sources": dict(step.sources),
            "code": step.code,
            **artifact.provenance(),
            "seconds": round(progress.seconds, 1),
            "metrics": metrics,
        }
        made = artifact.publish(step.place, manifest, still_ours)
        child.finish(made)
        redo.made(step)
    if not console.is_terminal:
        console.print(f"✓ {name:<9} {progress.seconds:.0f} s", highlight=False)
    return made


def status(step: Step) -> str:
    """`complete`, `to do`, or what is wrong with what lies there."""
    try:
        return "complete" if step.found() else "to do"
    except ArtifactError as error:
        return f"damaged: {error.problem}"
    except BabelrayError as error:
        return error.problem
