"""The commands that run a recipe: all of it, or up to one stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from babelray.commands.dashboard import print_dashboard
from babelray.commands.options import DryRun, Force, Overrides, RecipePath, console

if TYPE_CHECKING:
    from babelray.pipeline.preflight import CheckedPlan
    from babelray.pipeline.stage import Stage
    from babelray.recipe.run import Run


def run(recipe: RecipePath, overrides: Overrides = None, dry_run: DryRun = False, force: Force = None) -> None:
    """Run all stages that a recipe has, from text to report.

    Complete stages are reused, and an interrupted one resumes from its last checkpoint. A recipe with `variants` trains
    and compares one encoder for each variant and seed. `babelray components` lists the stages and what a recipe can
    choose.
    """
    run_recipe(recipe, overrides, None, dry_run, force)


def stage_command(stage: Stage[Any]) -> Callable[..., None]:
    """A command that runs a recipe up to a stage."""

    def command(recipe: RecipePath, overrides: Overrides = None, dry_run: DryRun = False, force: Force = None) -> None:
        run_recipe(recipe, overrides, stage.name, dry_run, force)

    command.__doc__ = stage_help(stage, "Stages that it needs are run first unless they are complete.")
    return command


def stage_help(stage: Stage[Any], more: str) -> str:
    """The first paragraph of a stage's docstring, and more."""
    return f"{first_paragraph(stage)}\n\n{more}"


def first_paragraph(component: object) -> str:
    """What a component is, in a sentence or two."""
    return " ".join((component.__doc__ or "").split("\n\n")[0].split())


def corpus(recipe: RecipePath, overrides: Overrides = None, dry_run: DryRun = False, force: Force = None) -> None:
    """`babelray corpus inspect ARTIFACT` prints the statistics of a corpus and a few random sentences per language."""
    run_recipe(recipe, overrides, "corpus", dry_run, force)


def inspect_corpus(
    artifact: Annotated[str, typer.Argument(metavar="ARTIFACT", help="A corpus: runs/corpus/latest.")],
) -> None:
    """Print the statistics of a corpus and a few random sentences per language."""
    from babelray.commands.corpus import show_corpus

    show_corpus(artifact, console)


def run_recipe(path: str, overrides: Sequence[str] | None, until: str | None, dry_run: bool, force: str | None) -> None:
    """Run a recipe up to a stage, and print its results; or only print its plan."""
    from babelray.commands.summary import print_results
    from babelray.pipeline import execution
    from babelray.pipeline.preflight import checked_plan
    from babelray.recipe.load import load_any_run

    recipe = load_any_run(path, overrides or [])
    if dry_run:
        _print_plan(recipe, checked_plan(recipe, until, force))
        return
    result = execution.run(recipe, console, until, force)
    print_results(result, console)
    print_dashboard(recipe)


def _print_plan(recipe: Run, plan: CheckedPlan) -> None:
    """The resolved recipe, and every step with its state; steps that several parts share once."""
    from rich.table import Table

    from babelray.pipeline.preflight import describe_demands
    from babelray.storage import Location

    parts = plan.parts
    console.print(recipe.to_yaml(), highlight=False, markup=False, soft_wrap=True)
    columns = ["stage", "fingerprint", "state"]
    table = Table(*(["run", *columns] if len(parts) > 1 else columns), box=None, pad_edge=False)
    printed: set[str] = set()
    for part in parts:
        for step in part.steps:
            if step.fingerprint not in printed:
                printed.add(step.fingerprint)
                state = step.status()
                if step.fingerprint in plan.forced and state != "to do":
                    state += ", to be made again"
                cells = [step.name, step.fingerprint, state]
                table.add_row(*([part.name, *cells] if len(parts) > 1 else cells))
    console.print(table)
    where = Location.parse(recipe.storage)
    console.print(f"\nlocation: {where}/STAGE/FINGERPRINT", highlight=False, soft_wrap=True)
    if plan.demands:
        console.print(f"no problem found; {describe_demands(recipe, plan.demands)}", highlight=False, soft_wrap=True)
