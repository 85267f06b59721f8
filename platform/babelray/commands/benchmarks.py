"""The commands `evaluate` and `compare`: scoring a run or one encoder on benchmarks, and comparing such results."""

from __future__ import annotations

from typing import Annotated

import typer

from babelray.commands.options import (
    DryRun,
    Force,
    Overrides,
    console,
    find_component,
    positional_settings,
    refuse_recipe_options,
)
from babelray.commands.run import run_recipe
from babelray.errors import BabelrayError
from babelray.evaluation.benchmark import BENCHMARKS


def evaluate(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE]", help="A YAML file; none with --model and --benchmark.")
    ] = None,
    overrides: Overrides = None,
    dry_run: DryRun = False,
    force: Force = None,
    model: Annotated[
        str | None, typer.Option(metavar="DIR", help="An encoder: a folder, a name, or babelray-mini.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"The benchmark: {', '.join(BENCHMARKS)}.")
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="PATH", help="Its data, in their published format.")] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Folder for scores and predictions.")] = None,
) -> None:
    """Without a recipe: score one encoder on one benchmark.

    `babelray evaluate --model babelray-mini --benchmark tatoeba --data DIR layer=7 scoring=csls`

    Settings of the benchmark, such as `layer`, are given as in a recipe. `babelray compare` compares results. A result
    is kept, unless `--force evaluate` is given.
    """
    if model is None and benchmark is None:
        if recipe is None:
            raise BabelrayError("evaluate needs a recipe, or --model and --benchmark", "See babelray evaluate --help.")
        run_recipe(recipe, overrides, "evaluate", dry_run, force)
        return
    from babelray.api.evaluation import refuse_without_run
    from babelray.commands.evaluate import evaluate_model
    from babelray.recipe.load import configure

    if model is None or benchmark is None:
        raise BabelrayError("one benchmark needs --model and --benchmark", "See babelray evaluate --help.")
    refuse_recipe_options(dry_run, force, "--model and --benchmark", forced="evaluate")
    component = find_component(BENCHMARKS, benchmark)
    refuse_without_run(component)
    values = {BENCHMARKS.tag: benchmark} | ({} if data is None else {"data": data})
    evaluate_model(
        model, configure(component, values, positional_settings(recipe, overrides)), out, console, bool(force)
    )


def compare(
    results: Annotated[
        list[str], typer.Argument(metavar="RESULT RESULT...", help="Folders of `evaluate --model`, of one benchmark.")
    ],
    allow_differences: Annotated[
        bool,
        typer.Option(
            "--allow-differences", help="Compare results of other settings, data or languages too; print what differs."
        ),
    ] = False,
) -> None:
    """Compare results of a benchmark, language by language, with a significance test.

    They may differ in the encoder alone. More than two are ranked; those that are not significantly worse than the best
    are marked.
    """
    from babelray.commands.evaluate import compare_results, rank_results

    if len(results) < 2:
        raise BabelrayError("compare needs at least two results", "babelray compare BEFORE AFTER")
    if len(results) == 2:
        compare_results(results[0], results[1], console, allow_differences)
    else:
        rank_results(results, console, allow_differences)
