"""The MLflow dashboard of the runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from babelray.commands.options import console, program

if TYPE_CHECKING:
    from babelray.recipe.run import Run


def dashboard(
    storage: Annotated[str, typer.Option(help="The folder of the runs.")] = "runs",
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000,
) -> None:
    """Serve the MLflow dashboard of the runs, on this machine only."""
    from babelray.tracking.dashboard import serve

    serve(storage, port, console)


def print_dashboard(recipe: Run) -> None:
    """Print where a run can be seen."""
    console.print(f"Dashboard: {_address(recipe)}", soft_wrap=True, highlight=False)


def _address(recipe: Run) -> str:
    from babelray.tracking.tracker import tracking_uri

    if uri := os.environ.get("MLFLOW_TRACKING_URI", ""):
        return "MLflow at MLFLOW_TRACKING_URI" if "@" in uri else uri
    if not tracking_uri(recipe.storage):
        return f"none; the metrics wait in {recipe.storage}/unsent for a run with MLFLOW_TRACKING_URI"
    storage = "" if recipe.storage == "runs" else f" --storage {recipe.storage}"
    return f"{program()} dashboard{storage}   (prints the address to open)"
