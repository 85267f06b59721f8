"""What is checked before a run: all that can be known without running a stage, in seconds, with all problems at once.

Stages check their own settings (`Stage.check`) and say what they demand of a machine (`Stage.demand`); here are the
storage, the room on it, and the machine's memory. Complete stages are not checked: a run that reuses them needs neither
their sources nor a model hub.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.cluster.machine import machine_of_run
from babelray.errors import BabelrayError, CollectedErrors, RecipeError, StorageError
from babelray.pipeline.force import steps_to_force
from babelray.pipeline.plan import NO_DIGESTS, Digests, PlanPart, Step, chosen_stages, plan_parts
from babelray.pipeline.prospects import Demand, Prospects
from babelray.storage import Location
from babelray.storage.writable import check_writable, nearest_folder

if TYPE_CHECKING:
    from babelray.config import Config
    from babelray.pipeline.stage import Stage
    from babelray.recipe.run import Run
    from babelray.storage.artifact import Artifact


@dataclass(frozen=True)
class CheckedPlan:
    """A plan without known problems, the steps that it makes again, and what it demands by stage."""

    parts: Sequence[PlanPart]
    forced: Collection[str]
    """Their fingerprints."""
    demands: Mapping[str, Demand]

    @property
    def steps(self) -> list[Step]:
        """The steps of all parts, each once."""
        return list({step.fingerprint: step for part in self.parts for step in part.steps}.values())


def checked_plan(
    recipe: Run, until: str | None = None, force: str | None = None, digests: Digests = NO_DIGESTS
) -> CheckedPlan:
    """Plan a run and check it; one error describes all problems. `digests`: of sources that need not be read again."""
    errors = CollectedErrors()
    parts: list[PlanPart] = []
    forced: set[str] = set()
    demands: dict[str, Demand] = {}
    with errors.attempt():
        parts = plan_parts(recipe, until, digests)
    plan = CheckedPlan(parts, forced, demands)
    with errors.attempt():
        if parts:
            forced |= steps_to_force(plan.steps, force)
    work = list(_work(plan)) if parts else list(_unplanned_work(recipe, until, errors))
    if work or not parts:
        _check_work(work, errors, demands)
        with errors.attempt():
            _check_memory(demands)
        with errors.attempt():
            check_writable(recipe.storage)
            _check_room(recipe.storage, demands)
    errors.raise_any()
    return plan


@dataclass(frozen=True)
class _Work:
    """A stage with its settings; complete with an artifact that need not be made again."""

    stage: Stage[Any]
    settings: Config
    artifact: Artifact | None = None


def _work(plan: CheckedPlan) -> Iterator[_Work]:
    """All steps of a plan, if there is anything to do."""
    loaded = {step.fingerprint: _load(step) for step in plan.steps if step.fingerprint not in plan.forced}
    if any(loaded.get(step.fingerprint) is None for step in plan.steps):
        for step in plan.steps:
            yield _Work(step.stage, step.settings, loaded.get(step.fingerprint))


def _load(step: Step) -> Artifact | None:
    """The artifact of a step; None if there is none, or if it is damaged, which its stage will report."""
    try:
        return step.load()
    except BabelrayError:
        return None


def _unplanned_work(recipe: Run, until: str | None, errors: CollectedErrors) -> Iterator[_Work]:
    """The stages of a recipe that cannot be planned, as far as they can be."""
    for varied in [recipe, *recipe.variations().values()]:
        stages: Sequence[Stage[Any]] = []
        with errors.attempt():
            stages = chosen_stages(varied, until)
        for stage in stages:
            with errors.attempt():
                settings = stage.settings(varied)
                stage.sources(settings)
                yield _Work(stage, settings)


def _check_work(work: Iterable[_Work], errors: CollectedErrors, demands: dict[str, Demand]) -> None:
    prospects = Prospects(machine=machine_of_run())
    for item in work:
        with errors.attempt():
            shape = item.stage.encoder_shape(item.settings, item.artifact)
            prospects = Prospects(shape or prospects.encoder, prospects.machine)
        if item.artifact is None:
            with errors.attempt():
                item.stage.check(item.settings, prospects, errors)
                demand = item.stage.demand(item.settings, prospects)
                demands[item.stage.name] = max(
                    demand, demands.get(item.stage.name, demand), key=lambda demand: demand.memory
                )


def _check_memory(demands: Mapping[str, Demand]) -> None:
    machine = machine_of_run()
    for name, demand in demands.items():
        if machine is not None and demand.memory > machine.memory:
            raise RecipeError(
                f"{name} needs at least {_size(demand.memory)} of memory, this machine has {_size(machine.memory)}",
                demand.remedy,
            )


def _check_room(storage: str, demands: Mapping[str, Demand]) -> None:
    location, needed = Location.parse(storage), sum(demand.storage for demand in demands.values())
    free = None if location.is_s3 else shutil.disk_usage(nearest_folder(location)).free
    if free is not None and needed > free:
        raise StorageError(
            f"the run needs at least {_size(needed)} of disk, {location} has {_size(free)} left",
            "Free some space or choose another location with `storage=…`.",
        )


def describe_demands(recipe: Run, demands: Mapping[str, Demand]) -> str:
    """What a run needs at least, and what there is; for a dry run."""
    machine, location = machine_of_run(), Location.parse(recipe.storage)
    memory = max((demand.memory for demand in demands.values()), default=0)
    storage = sum(demand.storage for demand in demands.values())
    here = f" of {_size(machine.memory)}" if machine else ""
    free = "" if location.is_s3 else f" of {_size(shutil.disk_usage(nearest_folder(location)).free)} free"
    return f"needs at least {_size(memory)}{here} of memory and {_size(storage)}{free} of storage"


def _size(count: int) -> str:
    """Bytes for people.

    >>> _size(3 * 10**9), _size(5 * 10**7), _size(10**15)
    ('3.0 GB', '0.1 GB', '1,000,000.0 GB')
    """
    return f"{count / 1e9:,.1f} GB"
