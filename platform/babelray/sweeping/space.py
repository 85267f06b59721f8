"""A sweep's space: the recipe that is varied, in what, by which figures it is judged, and how it is searched."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from babelray.config import Config, operational
from babelray.errors import RecipeError
from babelray.recipe import Recipe, changed, load_run
from babelray.run import NAME, Run
from babelray.simulation.config import Simulation

if TYPE_CHECKING:
    from babelray.stages.pipeline import Step

Values = dict[str, Any]
"""What a trial changes in the recipe, by dotted path."""
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


class Range(Config):
    """What a parameter can be: one of these four."""

    values: list[Any] | None = Field(None, min_length=1)
    """Any of a list; a grid takes them in turn."""
    uniform: tuple[float, float] | None = None
    """A number between two …"""
    log_uniform: tuple[float, float] | None = None
    """… likewise, but as often between 1 and 10 as between 10 and 100 …"""
    integers: tuple[int, int] | None = None
    """… or a whole number, both ends included."""

    @field_validator("values")
    @classmethod
    def _numbers_are_numbers(cls, values: list[Any] | None) -> list[Any] | None:
        """YAML reads 1e-5, without a dot, as text."""
        return values and [float(v) if isinstance(v, str) and NUMBER.fullmatch(v) else v for v in values]

    @model_validator(mode="after")
    def _is_one_range(self) -> Range:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of values, uniform, log_uniform, integers")
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"{given[0]}: the first number is to be less than the second")
        if self.log_uniform is not None and self.log_uniform[0] <= 0:
            raise ValueError("log_uniform: both numbers are to be above 0")
        return self

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest number; None for a list."""
        return self.uniform or self.log_uniform or self.integers

    def examples(self) -> list[Any]:
        """What can be tried out before anything starts: all of a list, or both ends."""
        return self.values if self.values is not None else list(self.bounds or ())

    def has(self, value: Any) -> bool:
        if self.values is not None:
            return value in self.values
        low, high = self.bounds or (0.0, 0.0)
        return isinstance(value, int | float) and low <= value <= high

    def at(self, share: float) -> Any:
        """The value at a share in [0, 1) of the way from the first to the last.

        >>> Range(values=["a", "b"]).at(0.5), Range(log_uniform=(0.01, 1)).at(0.5), Range(integers=(1, 3)).at(0.99)
        ('b', 0.1, 3)
        """
        if self.values is not None:
            return self.values[int(share * len(self.values))]
        if self.integers is not None:
            return self.integers[0] + int(share * (self.integers[1] - self.integers[0] + 1))
        if self.log_uniform is not None:
            low, high = self.log_uniform
            return min(high, low * (high / low) ** share)
        assert self.uniform is not None
        return self.uniform[0] + share * (self.uniform[1] - self.uniform[0])


class Metric(Config):
    """A figure that trials are judged by."""

    name: str
    """As the manifest of a stage has it, the parts of nested figures joined by `/`. `*` stands for anything: then it is
    the mean of all that fit, such as `by_language/*/bli/p1`."""
    mode: Literal["max", "min"] = "max"
    """Whether more or less is better."""

    @property
    def title(self) -> str:
        """
        >>> Metric(name="by_language/*/bli/p1").title
        'by_language/mean/bli/p1'
        """
        return self.name.replace("*", "mean")

    @property
    def sign(self) -> int:
        return 1 if self.mode == "max" else -1


class AshaConfig(Config):
    """Asynchronous successive halving (Li et al., 2020): after `grace`, `grace` x `factor` … steps, a training goes on
    only if what it measures is among the best 1 / `factor` of all that came as far.
    """

    metric: Metric = Metric(name="validation/retrieval")
    """What the training measures while it goes on: the recipe needs `pretrain.validation`."""
    grace: int = Field(100, ge=1)
    """Steps that every training gets."""
    factor: float = Field(3.0, gt=1)


class Space(Config):
    """A sweep: which trials there are, and how they are judged."""

    name: str = Field(pattern=NAME)
    recipe: str
    """The recipe that is varied, as `babelray run` takes it."""
    change: Values = Field(default_factory=dict)
    """What is changed in it for all trials, by dotted path."""
    stage: str = "evaluate"
    """How far a trial goes. Stages that no parameter changes are run once, for all of them."""
    parameters: dict[str, Range] = Field(min_length=1)
    """What is varied, by dotted path."""
    paper: Values = Field(default_factory=dict)
    """What the paper chose, by dotted path, to compare with. If it chose every parameter, that point is tried first."""
    metrics: list[Metric] = Field(min_length=1)
    """What counts. The first one decides which trial is best; several make a Pareto front."""
    search: Literal["grid", "random", "optuna"] = "grid"
    """All combinations; drawn at random; or drawn by Optuna (TPE) from what went well so far."""
    trials: int | None = operational(None, ge=1)
    """How many points are tried, each with every seed; null: the whole grid. More can be asked for later."""
    search_seed: int = Field(1, ge=0)
    """Same seed, same points, as far as they do not depend on results."""
    seeds: list[int] = Field(default=[1], min_length=1)
    """Every point is tried with each of them, and judged by the mean."""
    seed_key: str = "seed"
    """Where a seed goes: `pretrain.seed` is that of the training alone, `seed` that of everything."""
    scheduler: Literal["fifo", "asha", "pbt"] = "fifo"
    """`fifo`: every trial goes to its end. `asha`: trainings that fall behind are stopped."""
    asha: AshaConfig = AshaConfig()
    concurrent: int | None = operational(None, ge=1)
    """Trials at the same time; null: one for every two CPUs of the cluster."""

    @field_validator("scheduler")
    @classmethod
    def _can_be_traced(cls, scheduler: str) -> str:
        if scheduler == "pbt":
            raise ValueError(
                "population-based training changes a training's settings while it runs and copies weights between "
                "trials, so that no recipe makes its encoder again; use asha, with search: optuna"
            )
        return scheduler

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is given twice")
        return seeds

    @model_validator(mode="after")
    def _fits_together(self) -> Space:
        ranges = [path for path, given in self.parameters.items() if given.values is None]
        if self.search == "grid" and ranges:
            raise ValueError(f"search: a grid needs values for every parameter; {ranges[0]} has none")
        if self.search != "grid" and self.trials is None:
            raise ValueError(f"trials: the search {self.search} needs a number of them")
        for path, value in self.paper.items():
            if path not in self.parameters:
                raise ValueError(f"paper: {path} is not among the parameters")
            if not self.parameters[path].has(value):
                raise ValueError(f"paper: {path}: {value!r} is not in the range of the parameter")
        if self.seed_key in self.parameters:
            raise ValueError(f"parameters: {self.seed_key} is where the seeds go")
        return self

    @property
    def points(self) -> int:
        """How many there are to try."""
        if self.search != "grid":
            assert self.trials is not None
            return self.trials
        whole = math.prod(len(given.values or ()) for given in self.parameters.values())
        return min(whole, self.trials or whole)


@dataclass(frozen=True)
class Sweep:
    """A space with the recipe that it varies."""

    space: Space
    recipe: Run

    def varied(self, values: Values, seed: int) -> Run:
        """The recipe of one trial."""
        return changed(self.recipe, values | {self.space.seed_key: seed})

    def plan(self, recipe: Run, known: Mapping[str, str] | None = None) -> list[Step]:
        """The steps of a trial; `known`: digests of files that were read before."""
        from babelray.stages import pipeline

        if isinstance(recipe, Simulation):
            return [pipeline.plan_simulation(recipe)]
        assert isinstance(recipe, Recipe)
        return pipeline.plan(recipe, self.space.stage, known)


def load_sweep(path: str | Path, overrides: Sequence[str] = ()) -> Sweep:
    """Read a space and its recipe, and try every value that it names; nothing is run.

    Overrides are the recipe's, as everywhere, and come after what the space changes; with `sweep.` before them they are
    the space's own: `sweep.trials=20`.
    """
    if not Path(path).exists():
        shipped = sorted(p.as_posix() for p in Path("tune/spaces").glob("*.yaml"))
        remedy = f"Shipped spaces: {', '.join(shipped)}." if shipped else "Give the path of a space (a YAML file)."
        raise RecipeError(f"there is no space at {path}", remedy)
    own = [text.removeprefix("sweep.") for text in overrides if text.startswith("sweep.")]
    space = load_run(Space, path, own)
    kind = Simulation if space.stage == "simulate" else Recipe
    changes = [f"{key}={json.dumps(value)}" for key, value in space.change.items()]
    recipe: Run = load_run(kind, space.recipe, [*changes, *(o for o in overrides if not o.startswith("sweep."))])
    if isinstance(recipe, Recipe) and recipe.variants:
        recipe = changed(recipe, {"variants": {}})
    for key, given in space.parameters.items():
        for value in given.examples():
            _tried(path, f"parameters.{key}", recipe, key, value)
    for key, value in space.paper.items():
        _tried(path, f"paper.{key}", recipe, key, value)
    _tried(path, "seed_key", recipe, space.seed_key, space.seeds[0])
    if space.scheduler == "asha" and not (
        isinstance(recipe, Recipe) and recipe.pretrain and recipe.pretrain.validation
    ):
        raise RecipeError(
            f"{path}: scheduler: asha judges a training by what it measures on the way, and {space.recipe} has no "
            "pretrain.validation",
            "Give it one under `change`, such as `pretrain.validation: {every: 50}`.",
        )
    return Sweep(space, recipe)


def _tried(path: str | Path, where: str, recipe: Run, key: str, value: Any) -> None:
    try:
        changed(recipe, {key: value})
    except RecipeError as error:
        raise RecipeError(f"{path}: {where}: with {value!r}: {error.problem}", "Correct the space.") from None
