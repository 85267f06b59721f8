"""A component by its name and settings, as a recipe or a command names it, or as a config that exists already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from babelray.config import Config
from babelray.errors import RecipeError
from babelray.recipe.load import configure
from babelray.registry import Registry

C = TypeVar("C", bound=Config)


def configure_component(
    registry: Registry[C], component: str | C, settings: Mapping[str, Any], overrides: Sequence[str] = ()
) -> C:
    """The config of a component; an error with a suggestion for an unknown name or setting.

    `settings` are values by the names of fields, `overrides` dotted ones as on the command line: `cutoff=10000`.
    """
    if not isinstance(component, str):
        if settings or overrides:
            names = ", ".join([*settings, *overrides])
            raise RecipeError(f"{names}: a {registry.noun} that is configured already takes no settings")
        return component
    try:
        kind = registry.find(component)
    except ValueError as error:
        raise RecipeError(str(error)) from None
    return configure(kind, {registry.tag: component, **settings}, overrides)
