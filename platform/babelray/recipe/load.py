"""Loading recipes and other configs from YAML and dotted overrides."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from babelray.config import Config
from babelray.errors import RecipeError
from babelray.recipe.problems import describe_problems
from babelray.recipe.recipe import Recipe
from babelray.recipe.run import Run
from babelray.recipe.simulation import Simulation
from babelray.recipe.values import apply_override, fill_in_data, read_values, refuse_credentials, set_value

C = TypeVar("C", bound=Config)
R = TypeVar("R", bound=Run)


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply dotted overrides such as `pretrain.steps=200`; values are read as YAML.

    `path`: a YAML file, or the name of a shipped recipe.
    """
    return load_run(Recipe, path, overrides)


def load_any_run(recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Run:
    """A recipe or a simulation: whichever the keys of the file, or of its content, are of."""
    simulated = "simulate" in _values(recipe)
    return load_run(Simulation, recipe, overrides) if simulated else load_run(Recipe, recipe, overrides)


def load_run(kind: type[C], recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> C:
    """A config of one kind from a YAML file, or from its content, with overrides."""
    data = _values(recipe)
    for override in overrides:
        apply_override(data, override)
    refuse_credentials(data)
    data = fill_in_data(data, str(data.get("data", "data")))
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        problems = describe_problems(error, kind, data)
        name = "the recipe" if isinstance(recipe, Mapping) else recipe
        raise RecipeError(f"{name}: {problems}", "Correct the recipe and run it again.") from None


def _values(recipe: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(dict(recipe)) if isinstance(recipe, Mapping) else read_values(recipe)


def with_values(recipe: R, values: Mapping[str, Any]) -> R:
    """A recipe with other values at dotted paths."""
    data = recipe.model_dump(mode="json", by_alias=True)
    for dotted, value in values.items():
        set_value(data, dotted, value)
    return _validated(type(recipe), data)


def configure(kind: type[C], data: dict[str, Any], overrides: Sequence[str]) -> C:
    """A config of one component from values and dotted overrides, without a recipe."""
    for override in overrides:
        apply_override(data, override)
    return _validated(kind, data)


def _validated(kind: type[C], data: dict[str, Any]) -> C:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise RecipeError(describe_problems(error, kind, data)) from None
