"""The command `submit`: a recipe as a job on a Ray cluster."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from babelray.commands.options import RECIPE_HELP, Overrides, console, program
from babelray.errors import BabelrayError


def submit(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE", help=RECIPE_HELP)] = None,
    overrides: Overrides = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ray's dashboard. [default: RAY_ADDRESS, else http://127.0.0.1:8265]"),
    ] = None,
    stage: Annotated[str, typer.Option(help="Only up to this stage, such as extract.")] = "run",
    sweep: Annotated[bool, typer.Option("--sweep", help="RECIPE is the space of a sweep, such as transport.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for the job.")] = False,
    follow: Annotated[
        str | None, typer.Option(metavar="JOB", help="Follow a job that was submitted before; no RECIPE.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Pass this environment variable on; everyone with the token can read it."),
    ] = None,
    max_upload: Annotated[float, typer.Option(metavar="MB", min=0, help="Refuse to upload more than this.")] = 100,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent and where; send nothing.")
    ] = False,
) -> None:
    """Run a recipe on a Ray cluster, and follow it.

    The folder is uploaded without the files that `.rayignore` and `.gitignore` name. A recipe that is already running
    is followed, not started twice; an interrupted one resumes. Ctrl-C stops the job, a second Ctrl-C leaves it running.
    The exit code is the job's.

    No environment variable is passed on unless `--env` names it: credentials (AWS_…, MLFLOW_…) belong in the
    environment of the cluster's nodes.

    `babelray submit quickstart storage=s3://bucket/runs --address http://HEAD:8265`
    """
    from babelray.commands import job_client
    from babelray.commands.submission import prepare

    dashboard = job_client.address_of(address)
    if (recipe is None) == (follow is None):
        raise BabelrayError("submit needs a recipe, or --follow and a job", "See babelray submit --help.")
    if recipe is not None:
        submission = prepare(recipe, overrides or [], stage, sweep, env or [], max_upload)
        if dry_run:
            submission.show(dashboard, console)
            return
        client = job_client.connect(dashboard)
        follow = job_client.submit(client, submission, dashboard, console)
    else:
        client = job_client.connect(dashboard)
    command = f"{program()} submit" + (f" --address {address}" if address else "")
    if detach:
        console.print(f"Follow it: {command} --follow {follow}", soft_wrap=True, highlight=False)
        return
    sys.exit(job_client.attend(client, str(follow), dashboard, console, command))
