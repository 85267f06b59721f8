"""`babelray runs`: what the storage of the runs holds, and how to remove unfinished work."""

from __future__ import annotations

from typing import Annotated

import typer

from babelray.commands.options import console
from babelray.errors import ArtifactError, BabelrayError

runs = typer.Typer(help="List, show and clean the artifacts of runs.", invoke_without_command=True)

Storage = Annotated[str, typer.Option(help="The folder or bucket of the runs.")]
StageName = Annotated[str | None, typer.Argument(metavar="[STAGE]", help="Only of this stage, such as pretrain.")]


@runs.callback()
def main(context: typer.Context, storage: Storage = "runs") -> None:
    """List, show and clean the artifacts of runs. Without a command: list them."""
    if context.invoked_subcommand is None:
        list_runs(storage=storage)
    elif storage != "runs":
        command = context.invoked_subcommand
        raise BabelrayError(
            f"--storage is an option of `runs {command}`", f"Write: babelray runs {command} --storage {storage}"
        )


@runs.command("list")
def list_runs(stage: StageName = None, storage: Storage = "runs") -> None:
    """List complete artifacts, the newest first, and unfinished work."""
    from rich.table import Table

    from babelray.pipeline.plan import check_stage_name
    from babelray.storage.runs import stored_artifacts, unfinished_work

    if stage is not None:
        check_stage_name(stage)
    artifacts = stored_artifacts(storage, stage)
    unfinished = [folder for folder in unfinished_work(storage) if stage in (None, folder.parent.name)]
    table = Table("stage", "fingerprint", "made (UTC)", box=None, pad_edge=False)
    for title in ("seconds", "MB"):
        table.add_column(title, justify="right")
    for artifact in artifacts:
        created = artifact.created[:16].replace("T", " ")
        seconds, size = f"{artifact.manifest.get('seconds', 0):,.0f}", f"{artifact.bytes / 1e6:,.1f}"
        table.add_row(artifact.stage, artifact.location.name, created, seconds, size)
    for folder in unfinished:
        size = f"{sum(folder.sizes().values()) / 1e6:,.1f}"
        table.add_row(folder.parent.name, folder.name.removesuffix(".partial"), "unfinished", "", size)
    if table.rows:
        console.print(table)
    else:
        console.print(f"nothing in {storage}", highlight=False)
    if unfinished:
        console.print("\nUnfinished work is resumed by the same command; `babelray runs clean` deletes it.")


@runs.command()
def latest(
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="A stage, such as pretrain.")], storage: Storage = "runs"
) -> None:
    """Print the folder of the newest artifact of a stage, for scripts."""
    from babelray.pipeline.plan import check_stage_name
    from babelray.storage import Location
    from babelray.storage.runs import find_artifact

    check_stage_name(stage)
    typer.echo(find_artifact(Location.parse(storage) / stage / "latest"))


@runs.command()
def show(
    artifact: Annotated[str, typer.Argument(metavar="ARTIFACT", help="A folder: runs/pretrain/latest.")],
) -> None:
    """Show how an artifact was made: its inputs, versions, settings and metrics."""
    import yaml

    from babelray.storage.artifact import Artifact
    from babelray.storage.runs import find_artifact

    location = find_artifact(artifact)
    complete = Artifact.load(location)
    if complete is None:
        raise ArtifactError(f"there is no artifact at {location}", "`babelray runs` lists what there is.")
    manifest = complete.manifest
    console.print(f"{location}", highlight=False, soft_wrap=True)
    keys = ("stage", "fingerprint", "created", "seconds", "babelray", "commit", "code", "inputs", "settings", "metrics")
    shown = {key: manifest[key] for key in keys if key in manifest}
    shown["inputs"] = {name: entry["fingerprint"] for name, entry in manifest.get("inputs", {}).items()}
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    console.print(text, highlight=False, markup=False, soft_wrap=True)


@runs.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without this it is only listed.")] = False,
    storage: Storage = "runs",
) -> None:
    """Delete the unfinished work of interrupted runs. Work of a run that is busy stays."""
    from babelray.storage.runs import clean, unfinished_work

    work = unfinished_work(storage)
    if not work:
        console.print(f"no unfinished work in {storage}", highlight=False)
    elif not yes:
        for folder in work:
            console.print(f"{sum(folder.sizes().values()) / 1e6:>10,.1f} MB  {folder}", highlight=False, soft_wrap=True)
        console.print("`babelray runs clean --yes` deletes these; the runs would then start these stages over.")
    else:
        for folder, deleted in clean(work):
            state = "deleted" if deleted else "kept, a run is busy there"
            console.print(f"{folder}: {state}", highlight=False, soft_wrap=True)
