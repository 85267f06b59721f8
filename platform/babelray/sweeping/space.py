"""The space of a sweep: the recipe, the parameters that vary, the metrics that trials are scored by, and the search."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from babelray.config import Config, operational
from babelray.errors import RecipeError
from babelray.pipeline.plan import NO_DIGESTS, Digests, plan
from babelray.recipe.load import load_any_run, load_run, with_values
from babelray.recipe.run import NAME, Run
from babelray.recipe.shipped import SPACES

if TYPE_CHECKING:
    from babelray.pipeline.plan import Step

Values = dict[str, Any]
"""The values that a trial sets in the recipe, by dotted path."""
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


class Range(Config):
    """The values of a parameter: one of these four."""

    values: list[Any] | None = Field(None, min_length=1)
    """A list; a grid takes its items in turn."""
    uniform: tuple[float, float] | None = None
    """A number between two."""
    log_uniform: tuple[float, float] | None = None
    """A number between two, uniform on a logarithmic scale."""
    integers: tuple[int, int] | None = None
    """A whole number between two, both included."""

    @field_validator("values")
    @classmethod
    def _parse_numbers(cls, values: list[Any] | None) -> list[Any] | None:
        """YAML reads 1e-5, without a dot, as text."""
        return values and [float(v) if isinstance(v, str) and NUMBER.fullmatch(v) else v for v in values]

    @model_validator(mode="after")
    def _check_range(self) -> Range:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of values, uniform, log_uniform, integers")
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"{given[0]}: the first number must be less than the second")
        if self.log_uniform is not None and self.log_uniform[0] <= 0:
            raise ValueError("log_uniform: both numbers must be above 0")
        return self

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest number; None for a list."""
        return self.uniform or self.log_uniform or self.integers

    def examples(self) -> list[Any]:
        """Values that can be validated before anything starts: all of a list, or both ends."""
        return self.values if self.values is not None else list(self.bounds or ())

    def contains(self, value: Any) -> bool:
        if self.values is not None:
            return value in self.values
        low, high = self.bounds or (0.0, 0.0)
        return isinstance(value, int | float) and low <= value <= high

    def at(self, fraction: float) -> Any:
        """The value at a fraction in [0, 1) of the way from the first to the last.

        >>> Range(values=["a", "b"]).at(0.5), Range(log_uniform=(0.01, 1)).at(0.5), Range(integers=(1, 3)).at(0.99)
        ('b', 0.1, 3)
        """
        if self.values is not None:
            return self.values[int(fraction * len(self.values))]
        if self.integers is not None:
            return self.integers[0] + int(fraction * (self.integers[1] - self.integers[0] + 1))
        if self.log_uniform is not None:
            low, high = self.log_uniform
            return min(high, low * (high / low) ** fraction)
        assert self.uniform is not None
        return self.uniform[0] + fraction * (self.uniform[1] - self.uniform[0])


class Metric(Config):
    """A metric that trials are scored by."""

    name: str
    """Its name in the manifest of a stage, the keys of nested metrics joined by `/`. `*` matches anything: the value is
    then the mean of all matches, such as `by_language/*/bli/p1`."""
    mode: Literal["max", "min"] = "max"
    """Whether a higher or a lower value is better."""
    before: str | None = operational(None)
    """The metric with the value before, which the page shows; by default `X/before` for `X/after`."""

    @property
    def title(self) -> str:
        """
        >>> Metric(name="by_language/*/bli/p1").title
        'by_language/mean/bli/p1'
        """
        return self.name.replace("*", "mean")

    @property
    def starting(self) -> Metric | None:
        """The metric with the value before; None if there is none.

        >>> Metric(name="retrieval/after").starting.name
        'retrieval/before'
        """
        derived = f"{self.name.removesuffix('after')}before" if self.name.endswith("/after") else None
        name = self.before or derived
        return Metric(name=name, mode=self.mode) if name else None

    @property
    def sign(self) -> int:
        return 1 if self.mode == "max" else -1


class AshaConfig(Config):
    """Asynchronous successive halving (Li et al., 2020): after `grace`, `grace` x `factor` … steps a training
    continues only if its metric is among the best 1 / `factor` of all that reached that step.
    """

    metric: Metric = Metric(name="validation/retrieval")
    """A metric of the training's validation: the recipe needs `pretrain.validation`."""
    grace: int = Field(100, ge=1)
    """Steps before the first decision."""
    factor: float = Field(3.0, gt=1)


class Space(Config):
    """A sweep: its trials, and how they are scored."""

    name: str = Field(pattern=NAME)
    recipe: str
    """The recipe that varies, as `babelray run` takes it."""
    change: Values = Field(default_factory=dict)
    """Values changed in it for all trials, by dotted path."""
    stage: str = "evaluate"
    """The last stage of a trial. Stages that no parameter changes run once, for all trials."""
    parameters: dict[str, Range] = Field(min_length=1)
    """The parameters that vary, by dotted path."""
    paper: Values = Field(default_factory=dict)
    """The published values, by dotted path. If they include every parameter, that point is tried first."""
    metrics: list[Metric] = Field(min_length=1)
    """The first one decides which trial is best; several make a Pareto front."""
    search: Literal["grid", "random", "optuna"] = "grid"
    """All combinations; random points; or points that Optuna (TPE) proposes from the results so far."""
    trials: int | None = operational(None, ge=1)
    """The number of points, each with every seed; null: the whole grid. It can be raised later."""
    search_seed: int = Field(1, ge=0)
    """The same seed gives the same points, as far as they do not depend on results."""
    seeds: list[int] = Field(default=[1], min_length=1)
    """Every point is tried with each of them, and scored by the mean."""
    seed_key: str = "seed"
    """The key that a seed sets: `pretrain.seed` for the training alone, `seed` for everything."""
    scheduler: Literal["fifo", "asha", "pbt"] = "fifo"
    """`fifo`: every trial runs to its end. `asha`: trainings that fall behind are stopped."""
    asha: AshaConfig = AshaConfig()
    concurrent: int | None = operational(None, ge=1)
    """Trials at the same time; null: one for every two CPUs of the cluster."""

    @field_validator("scheduler")
    @classmethod
    def _check_scheduler(cls, scheduler: str) -> str:
        if scheduler == "pbt":
            raise ValueError(
                "population-based training changes a training's settings while it runs and copies weights between "
                "trials, so that no recipe reproduces its encoder; use asha, with search: optuna"
            )
        return scheduler

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is given twice")
        return seeds

    @model_validator(mode="after")
    def _check_consistency(self) -> Space:
        ranges = [path for path, given in self.parameters.items() if given.values is None]
        if self.search == "grid" and ranges:
            raise ValueError(f"search: a grid needs values for every parameter; {ranges[0]} has none")
        if self.search != "grid" and self.trials is None:
            raise ValueError(f"trials: the search {self.search} needs a number of them")
        for path, value in self.paper.items():
            if path not in self.parameters:
                raise ValueError(f"paper: {path} is not among the parameters")
            if not self.parameters[path].contains(value):
                raise ValueError(f"paper: {path}: {value!r} is not in the range of the parameter")
        if self.seed_key in self.parameters:
            raise ValueError(f"parameters: {self.seed_key} is the key that the seeds set")
        return self

    @property
    def points(self) -> int:
        """The number of points to try."""
        if self.search != "grid":
            assert self.trials is not None
            return self.trials
        size = math.prod(len(parameter.values or ()) for parameter in self.parameters.values())
        return min(size, self.trials or size)


@dataclass(frozen=True)
class Sweep:
    """A space with its recipe."""

    space: Space
    recipe: Run

    def varied(self, values: Values, seed: int) -> Run:
        """The recipe of one trial."""
        return with_values(self.recipe, values | {self.space.seed_key: seed})

    def plan(self, recipe: Run, digests: Digests = NO_DIGESTS) -> list[Step]:
        """The steps of a trial, without stages that only follow, such as pages that nobody would open.

        `digests`: those of files that were read before.
        """
        steps = plan(recipe, self.space.stage, digests)
        return [step for step in steps if step.name == self.space.stage or not step.stage.follows]


def load_sweep(path: str | Path, overrides: Sequence[str] = ()) -> Sweep:
    """Read a space and its recipe, and validate every value that it names; nothing is run.

    `path`: a YAML file, or the name of a shipped space.

    Overrides change the recipe, after the values that the space changes; with the prefix `sweep.` they change the
    space: `sweep.trials=20`.
    """
    space = _load_space(path, [text.removeprefix("sweep.") for text in overrides if text.startswith("sweep.")])
    changes = [f"{key}={json.dumps(value)}" for key, value in space.change.items()]
    recipe = load_any_run(space.recipe, [*changes, *(text for text in overrides if not text.startswith("sweep."))])
    if recipe.variations():
        recipe = with_values(recipe, {"variants": {}})
    _check_values(path, space, recipe)
    if space.scheduler == "asha" and not _validates(recipe):
        raise RecipeError(
            f"{path}: scheduler: asha compares trainings by their validation, and {space.recipe} has no "
            "pretrain.validation",
            "Give it one under `change`, such as `pretrain.validation: {every: 50}`.",
        )
    return Sweep(space, recipe)


def _load_space(path: str | Path, overrides: Sequence[str]) -> Space:
    located = SPACES.locate(path)
    if not located.exists():
        raise RecipeError(*SPACES.explain_missing(path))
    return load_run(Space, located, overrides)


def _validates(recipe: Run) -> bool:
    training = getattr(recipe, "pretrain", None)
    return bool(training and training.validation)


def _check_values(path: str | Path, space: Space, recipe: Run) -> None:
    """Raise an error if the recipe does not take one of the space's values."""
    for key, parameter in space.parameters.items():
        for value in parameter.examples():
            _check_value(path, f"parameters.{key}", recipe, key, value)
    for key, value in space.paper.items():
        _check_value(path, f"paper.{key}", recipe, key, value)
    _check_value(path, "seed_key", recipe, space.seed_key, space.seeds[0])


def _check_value(path: str | Path, where: str, recipe: Run, key: str, value: Any) -> None:
    try:
        with_values(recipe, {key: value})
    except RecipeError as error:
        raise RecipeError(f"{path}: {where}: with {value!r}: {error.problem}", "Correct the space.") from None
