"""The options that several commands share, and where commands print."""

from __future__ import annotations

import sys
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from babelray.errors import RecipeError
from babelray.registry import Registry

T = TypeVar("T")
console = Console()
errors = Console(stderr=True)

RECIPE_HELP = "A YAML file, or the name of a shipped recipe, such as quickstart (see `babelray recipes`)."
RecipePath = Annotated[str, typer.Argument(metavar="RECIPE", help=RECIPE_HELP)]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Values to change, by dotted path: pretrain.steps=200"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved recipe and the plan; run nothing.")]
Force = Annotated[
    str | None,
    typer.Option(
        "--force",
        metavar="STAGE",
        help="Run this stage and its successors again, even if complete. After an interruption the same command "
        "resumes.",
    ),
]


def program() -> str:
    """How this command was called, so that a printed command can be copied and run."""
    if sys.argv[0].endswith(".py"):
        return "python -m babelray"
    return sys.argv[0] if sys.argv[0].startswith((".", "/")) and len(sys.argv[0]) < 60 else "babelray"


def positional_settings(recipe: str | None, overrides: list[str] | None) -> list[str]:
    """The settings given to a command without a recipe, where the first one is in the place of the recipe."""
    return [text for text in (recipe, *(overrides or [])) if text is not None]


def refuse_recipe_options(dry_run: bool, force: str | None, subject: str, forced: str | None = None) -> None:
    """Raise an error if options for recipes are given without one, where they would have no effect.

    `forced` is the only value that `--force` may have there.
    """
    if dry_run:
        raise RecipeError(f"--dry-run is for recipes, not for {subject}", "Leave it out.")
    if force not in (None, forced):
        remedy = f"Give --force {forced}." if forced else "Leave it out, and name another folder with --out."
        raise RecipeError(f"--force {force} is for recipes, not for {subject}", remedy)


def find_component(registry: Registry[T], name: str) -> type[T]:
    """The component of a name that an option gives."""
    try:
        return registry.find(name)
    except ValueError as error:
        raise RecipeError(f"--{error}") from None
