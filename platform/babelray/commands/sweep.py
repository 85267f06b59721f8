"""The command `sweep`: a recipe with many values of its parameters."""

from __future__ import annotations

from typing import Annotated

import typer

from babelray.commands.dashboard import print_dashboard
from babelray.commands.options import DryRun, Overrides, console
from babelray.errors import BabelrayError


def sweep(
    space: Annotated[
        str,
        typer.Argument(metavar="SPACE", help="A YAML file or a shipped name, such as quickstart; or `status SPACE`."),
    ],
    overrides: Overrides = None,
    dry_run: DryRun = False,
) -> None:
    """Search for the best parameters of a recipe: grid, random or Optuna, on Ray Tune.

    After an interruption the same command resumes. `babelray sweep status SPACE` prints the trials, also while they
    run. Values of the space itself are changed with the prefix `sweep.`: `sweep.trials=20`.
    """
    from babelray.sweeping.run import run_sweep, show_plan, show_results, show_status
    from babelray.sweeping.space import load_sweep

    if space == "status":
        if not overrides:
            raise BabelrayError("status needs a space", "babelray sweep status SPACE")
        show_status(load_sweep(overrides[0], overrides[1:]), console)
        return
    loaded = load_sweep(space, overrides or [])
    if dry_run:
        show_plan(loaded, console)
        return
    show_results(loaded, run_sweep(loaded, console), console)
    print_dashboard(loaded.recipe)
