"""The plan of a run: which stages it has, and the fingerprint and location of each one's artifact.

Planning reads the sources' content and the code, runs nothing and writes nothing.

A recipe with variants has a plan of several parts: one for each variant and seed, up to the stage whose artifacts are
compared, and one with the comparison. Parts share the steps that no variant changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from babelray.errors import ArtifactError, BabelrayError, RecipeError
from babelray.pipeline.code_version import code_version
from babelray.pipeline.stage import STAGES, Stage, run_name
from babelray.storage import Location
from babelray.storage.artifact import Artifact, fingerprint

if TYPE_CHECKING:
    from babelray.config import Config
    from babelray.recipe.run import Run

Digests = Mapping[str, str]
"""Digests of source files by their location."""
NO_DIGESTS: Digests = MappingProxyType({})


@dataclass(frozen=True)
class Step:
    """A stage with everything that decides its result, and the location of that result."""

    stage: Stage[Any]
    settings: Config
    sources: Digests
    inputs: Mapping[str, str]
    """Fingerprints of the artifacts that it reads, by name."""
    code: str
    fingerprint: str
    location: Location
    parts: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the parts of its artifact that other stages read by themselves."""

    @property
    def name(self) -> str:
        return self.stage.name

    def load(self) -> Artifact | None:
        """The artifact, if it is complete; None if there is none yet."""
        return Artifact.load(self.location)

    def status(self) -> str:
        """`complete`, `to do`, or a description of the damage."""
        try:
            return "complete" if self.load() else "to do"
        except ArtifactError as error:
            return f"damaged: {error.problem}"
        except BabelrayError as error:
            return error.problem


@dataclass(frozen=True)
class PlanPart:
    """Steps that are tracked as one run: the recipe's, those of one variant with one seed, or their comparison."""

    name: str
    recipe: Run
    steps: Sequence[Step]


def plan(recipe: Run, until: str | None = None, digests: Digests = NO_DIGESTS) -> list[Step]:
    """The steps of a run up to a stage, in order, each once.

    `digests`: those of sources that need not be read again.
    """
    steps = {step.fingerprint: step for part in plan_parts(recipe, until, digests) for step in part.steps}
    return list(steps.values())


def plan_parts(recipe: Run, until: str | None = None, digests: Digests = NO_DIGESTS) -> list[PlanPart]:
    """The parts of a plan; a recipe that compares no variants has one part."""
    stages = ordered_stages(recipe.kind)
    comparing = next((stage for stage in stages.values() if stage.compares and stage.wanted(recipe)), None)
    if comparing is not None and _compares(comparing, stages, until):
        return _comparison_parts(recipe, comparing, stages, digests)
    return [PlanPart(recipe.name, recipe, _steps(recipe, chosen_stages(recipe, until), digests))]


def results(steps: Iterable[Step]) -> list[Step]:
    """The steps whose artifacts no other step reads, apart from those that only follow."""
    steps = list(steps)
    read = {key for step in steps if not step.stage.follows for key in step.inputs.values()}
    return [step for step in steps if step.fingerprint not in read]


def check_stage_name(name: str) -> None:
    if name not in STAGES:
        raise RecipeError(f"there is no stage {name!r}", f"Stages: {', '.join(ordered_stages())}.")


def ordered_stages(kind: str | None = None) -> dict[str, Stage[Any]]:
    """All stages of a kind of recipe, each after those whose artifacts it reads."""
    stages = {name: stage() for name, stage in STAGES.items() if kind is None or kind in stage.recipe_kinds}
    sorter = TopologicalSorter({name: _predecessors(stage) & {*stages} for name, stage in stages.items()})
    sorter.prepare()
    ordered: dict[str, Stage[Any]] = {}
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered |= {name: stages[name] for name in ready}
        sorter.done(*ready)
    return ordered


def _predecessors(stage: Stage[Any]) -> set[str]:
    compared = {stage.compares} if stage.compares else set()
    return {*stage.needs, *stage.uses, *stage.follows, *compared}


def _steps(recipe: Run, stages: Iterable[Stage[Any]], digests: Digests) -> list[Step]:
    """The steps of stages, each of which reads the artifacts of earlier ones."""
    earlier: dict[str, Step] = {}
    for stage in stages:
        names = [*stage.needs, *(name for name in stage.uses if name in earlier)]
        earlier[stage.name] = _step(stage, recipe, {name: earlier[name] for name in names}, digests)
    return list(earlier.values())


def _step(stage: Stage[Any], recipe: Run, inputs: Mapping[str, Step], digests: Digests) -> Step:
    settings = stage.settings(recipe)
    locations = stage.sources(settings)
    sources = {str(location): digests.get(str(location)) or location.digest() for location in locations}
    code = code_version(type(stage).__module__, settings)
    # The content of a source counts, not the folder that it was read from.
    key = fingerprint(
        stage=stage.name,
        settings=settings.identity(),
        sources=sorted(sources.values()),
        inputs=_read(stage, settings, inputs),
        code=code,
    )
    location = Location.parse(recipe.storage) / stage.name / key
    keys = {name: step.fingerprint for name, step in inputs.items()}
    return Step(stage, settings, sources, keys, code, key, location, _parts(stage, settings, sources, code))


def _read(stage: Stage[Any], settings: Config, inputs: Mapping[str, Step]) -> dict[str, Any]:
    """What a stage reads: the fingerprints of whole artifacts, or of their parts."""
    reads = stage.reads(settings)
    keys: dict[str, Any] = {name: step.fingerprint for name, step in inputs.items() if name not in reads}
    for name, parts in reads.items():
        if parts and name in inputs:
            keys[name] = {part: inputs[name].parts[part] for part in sorted(parts)}
    return keys


def _parts(stage: Stage[Any], settings: Config, digests: Digests, code: str) -> dict[str, str]:
    """The fingerprints of the parts of a stage's artifact."""
    keys: dict[str, str] = {}
    for name, part in stage.parts(settings).items():
        sources = sorted(digests[str(location)] for location in part.sources)
        needed = [keys[other] for other in part.needs]
        keys[name] = fingerprint(
            stage=stage.name, part=name, settings=dict(part.identity), sources=sources, needs=needed, code=code
        )
    return keys


def _compares(comparing: Stage[Any], stages: Mapping[str, Stage[Any]], until: str | None) -> bool:
    """Whether a run that ends with a stage, or with all of them, includes the comparison."""
    return until in (None, comparing.name) or (until in stages and comparing.name in stages[until].follows)


def _comparison_parts(
    recipe: Run, comparing: Stage[Any], stages: Mapping[str, Stage[Any]], digests: Digests
) -> list[PlanPart]:
    """A part for each variant and seed, then the comparison and the stages that follow it."""
    all_digests = dict(digests)
    parts: list[PlanPart] = []
    inputs: dict[str, Step] = {}
    for (variant, seed), varied in recipe.variations().items():
        steps = _steps(varied, chosen_stages(varied, comparing.compares), all_digests)
        all_digests |= {location: digest for step in steps for location, digest in step.sources.items()}
        by_name = {step.name: step for step in steps}
        inputs |= {name: by_name[name] for name in comparing.needs}
        inputs[run_name(variant, seed)] = by_name[str(comparing.compares)]
        parts.append(PlanPart(run_name(variant, seed), varied, steps))
    comparison = _step(comparing, recipe, inputs, all_digests)
    visible = {name: inputs[name] for name in comparing.needs} | {comparing.name: comparison}
    followers = [
        _step(
            stage, recipe, {name: visible[name] for name in (*stage.needs, *stage.uses) if name in visible}, all_digests
        )
        for stage in stages.values()
        if comparing.name in stage.follows and {*stage.needs} <= {*visible}
    ]
    return [*parts, PlanPart(comparing.name, recipe, [comparison, *followers])]


def chosen_stages(recipe: Run, until: str | None) -> list[Stage[Any]]:
    """The stages that lead to one; without one, all that the recipe has."""
    stages = ordered_stages(recipe.kind)
    absent = _absent(stages, recipe)
    if until is not None:
        check_stage_name(until)
        if until not in stages or until in absent:
            raise RecipeError(f"this recipe has no {until}", f"Give it a key `{absent.get(until, until)}`.")
    chosen = {*stages} - {*absent}
    if until is not None and (stages[until].needs or not stages[until].follows):
        chosen = _closure(stages, until)
    followers = [name for name, stage in stages.items() if name not in absent and {*stage.follows} & chosen]
    return [stage for name, stage in stages.items() if name in {*chosen, *followers}]


def _absent(stages: Mapping[str, Stage[Any]], recipe: Run) -> dict[str, str]:
    """The stages that a recipe does not have, and for each the key that it would take."""
    absent: dict[str, str] = {}
    for name, stage in stages.items():
        missing = next((absent[needed] for needed in stage.needs if needed in absent), None)
        if stage.compares:
            absent[name] = "variants"
        elif not stage.wanted(recipe):
            absent[name] = name
        elif missing is not None:
            absent[name] = missing
        elif stage.follows and not any(followed in stages and followed not in absent for followed in stage.follows):
            keys = dict.fromkeys(absent[followed] for followed in stage.follows if followed in absent)
            absent[name] = " or ".join(keys)
    return absent


def _closure(stages: Mapping[str, Stage[Any]], until: str) -> set[str]:
    """A stage and all that it needs, directly or not."""
    needed = {until}
    for name in reversed(list(stages)):
        if name in needed:
            needed.update(stages[name].needs)
    return needed
