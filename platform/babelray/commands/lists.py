"""The commands `languages` and `components`: what a recipe can choose from."""

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
