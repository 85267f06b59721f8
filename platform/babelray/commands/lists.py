"""The commands `languages`, `components` and `recipes`: what a recipe can choose from, and the recipes themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from babelray.commands.options import console
from babelray.commands.run import first_paragraph

if TYPE_CHECKING:
    from collections.abc import Mapping


def languages(as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False) -> None:
    """List the languages that Babelray knows."""
    from babelray.languages import LANGUAGES

    if as_json:
        typer.echo(json.dumps([language.model_dump() for language in LANGUAGES.values()], ensure_ascii=False, indent=2))
        return
    from rich.table import Table

    fields = ("code", "name", "native", "family", "script", "iso639_3", "segmenter")
    table = Table(*fields, box=None, pad_edge=False)
    for language in LANGUAGES.values():
        table.add_row(*(getattr(language, field) for field in fields))
    console.print(table)


def components() -> None:
    """List the components that a recipe chooses from: stages, methods, objectives, benchmarks."""
    from rich.table import Table

    for title, registry in registries().items():
        table = Table(title, "", box=None, pad_edge=False, header_style="bold")
        for name, component in registry.items():
            table.add_row(name, _one_line(component))
        console.print(table)
        console.print()


def recipes(as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False) -> None:
    """List the shipped recipes and sweep spaces, and what each needs that is not shipped.

    `babelray run NAME` runs a recipe, `babelray sweep NAME` a space, and `babelray init FOLDER --recipe NAME` writes a
    copy to edit. `data` means `data=FOLDER`, with the files that the recipe's first comment names; an encoder is
    downloaded from the model hub unless `encoder.path` gives a folder.
    """
    listed = _shipped()
    if as_json:
        typer.echo(json.dumps(listed, ensure_ascii=False, indent=2))
        return
    from rich.table import Table

    for kind, rows in listed.items():
        table = Table(kind, "needs", "", box=None, pad_edge=False, header_style="bold")
        for name, row in rows.items():
            table.add_row(name, "\n".join(row["needs"]), row["description"])
        console.print(table)
        console.print()


def _shipped() -> dict[str, dict[str, dict[str, Any]]]:
    """What the shipped recipes and spaces need and are for, by kind and name."""
    from babelray.recipe.shipped import RECIPES, SPACES, description
    from babelray.sweeping.space import load_sweep

    recipes_read = {
        RECIPES: {name: name for name in RECIPES.names()},
        SPACES: {name: load_sweep(name).space.recipe for name in SPACES.names()},
    }
    return {
        files.kind: {
            name: {"needs": _needs(recipe), "description": description(files.read(name))}
            for name, recipe in read.items()
        }
        for files, read in recipes_read.items()
    }


def _needs(recipe: str) -> list[str]:
    """What a shipped recipe reads that is not shipped."""
    from babelray.recipe.load import load_any_run
    from babelray.recipe.shipped import RECIPES

    encoder = getattr(getattr(load_any_run(recipe), "encoder", None), "path", None)
    needs = ["data"] if "{data}" in RECIPES.read(recipe) else []
    return needs + ([encoder] if encoder and encoder != "babelray-mini" else [])


def registries() -> dict[str, Mapping[str, type[Any]]]:
    """Every registry by its title; stages are in the order in which they run."""
    from babelray.evaluation.benchmark import BENCHMARKS
    from babelray.extraction.method import EXTRACTION_METHODS
    from babelray.mapping.method import MAPPING_METHODS
    from babelray.objectives.objective import OBJECTIVES
    from babelray.pipeline.plan import ordered_stages
    from babelray.stitching.method import STITCHING_METHODS

    return {
        "stages": {name: type(stage) for name, stage in ordered_stages().items()},
        "extraction methods": EXTRACTION_METHODS,
        "mapping methods": MAPPING_METHODS,
        "stitching methods": STITCHING_METHODS,
        "objectives": OBJECTIVES,
        "benchmarks": BENCHMARKS,
    }


def _one_line(component: type[Any]) -> str:
    """The first sentence of its description."""
    return first_paragraph(component).split(". ")[0].removesuffix(".")
