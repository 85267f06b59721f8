"""What is sent to a cluster with a job: the project's folder, the command, and the runtime environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from babelray.cluster.nodes import PACKAGE, code_digest
from babelray.cluster.upload import Files, check_size, files_to_send, largest, megabytes
from babelray.errors import RecipeError
from babelray.recipe.shipped import RECIPES, SPACES, ShippedFiles
from babelray.storage.artifact import fingerprint

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.recipe.run import Run

RUNTIME_ENV = "jobs/runtime-env.yaml"
STOP_SETTINGS = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""Ray stops a job with the signal of Ctrl-C, so that it ends in order, and waits that many seconds."""


@dataclass(frozen=True)
class Submission:
    """The command, the files and the runtime environment of a job, and the name that distinguishes it."""

    stem: str
    """The job's id without its number; the same for the same recipe."""
    entrypoint: str
    folder: Path
    files: Files
    runtime_env: dict[str, Any]
    code: str

    def show(self, address: str, console: Console) -> None:
        size = sum(self.files.values())
        passed = sorted(self.runtime_env.get("env_vars", {}))
        lines = {
            "address": address,
            "job": f"{self.stem}-NUMBER",
            "entrypoint": self.entrypoint,
            "folder": str(self.folder),
            "upload": f"{megabytes(size)} in {len(self.files):,} files, without what .rayignore and .gitignore name",
            "largest": ("\n" + " " * 12).join(largest(self.files)),
            "variables": ", ".join(passed),
        }
        for name, value in lines.items():
            console.print(f"{name:<11} {value}", highlight=False, markup=False, soft_wrap=True)


def prepare(
    recipe: str,
    overrides: Sequence[str] = (),
    stage: str = "run",
    sweep: bool = False,
    variables: Sequence[str] = (),
    max_upload: float = 100,
) -> Submission:
    """Read the recipe, and collect what is sent with it. Errors that can be found here are raised here.

    Inside a clone of the project, its folder is sent, with the scripts of `jobs/`. Elsewhere it is the current folder,
    together with this package.
    """
    stage = "sweep" if sweep else stage
    name, resolved = _read(recipe, overrides, stage)
    clone = _clone()
    folder = clone or Path.cwd()
    files = files_to_send(folder)
    check_size(files, folder, max_upload)
    inside = _inside(recipe, SPACES if sweep else RECIPES, folder, files)
    runtime_env = _runtime_env(folder) | {"working_dir": str(folder)}
    if clone:
        command = ["python", "tune/sweep.py" if sweep else f"jobs/{stage}.py"]
    else:
        command = ["python", "-m", "babelray.commands.app", stage]
        runtime_env |= {"py_modules": [str(PACKAGE)], "excludes": ["__pycache__"]}
    runtime_env["env_vars"] = {**STOP_SETTINGS, **runtime_env.get("env_vars", {}), **_variables(variables)}
    return Submission(
        stem=f"babelray-{name}-{fingerprint(stage=stage, recipe=resolved)}",
        entrypoint=shlex.join([*command, inside, *overrides]),
        folder=folder,
        files=files,
        runtime_env=runtime_env,
        code=code_digest(clone / "platform/babelray" if clone else PACKAGE),
    )


def _read(recipe: str, overrides: Sequence[str], stage: str) -> tuple[str, Any]:
    """The name of a run and its resolved values; an error if the recipe is wrong or cannot run on a cluster."""
    run: Run
    values: Any
    if stage == "sweep":
        from babelray.sweeping.space import load_sweep

        sweep = load_sweep(recipe, overrides)
        run, values = sweep.recipe, [sweep.space.model_dump(mode="json"), sweep.recipe.model_dump(mode="json")]
        name = sweep.space.name
    else:
        from babelray.recipe.load import load_any_run

        _check_stage(stage)
        run = load_any_run(recipe, overrides)
        name, values = run.name, run.model_dump(mode="json")
    if "://" not in run.storage and not Path(run.storage).is_absolute():
        raise RecipeError(
            f"storage {run.storage!r} would be inside the job's own folder, which is deleted with it",
            "Give a location that all nodes reach: storage=s3://bucket/runs, or the full path of a shared folder.",
        )
    return name, values


def _check_stage(stage: str) -> None:
    from babelray.pipeline.plan import ordered_stages

    names = ["run", *(name for name, known in ordered_stages().items() if not known.compares)]
    if stage not in names:
        raise RecipeError(f"there is no stage {stage!r}", f"Stages: {', '.join(names)}.")


def _clone() -> Path | None:
    here = Path.cwd()
    clones = (p for p in (here, *here.parents) if (p / "jobs/run.py").is_file() and (p / "platform/babelray").is_dir())
    return next(clones, None)


def _inside(recipe: str, shipped: ShippedFiles, folder: Path, files: Files) -> str:
    """The recipe's path inside the folder that is sent; the name alone if it is sent with the package."""
    path = shipped.locate(recipe).resolve()
    if path.is_relative_to(PACKAGE):
        return recipe
    inside = path.relative_to(folder.resolve()).as_posix() if path.is_relative_to(folder.resolve()) else ""
    if inside not in files:
        reason = ".rayignore or .gitignore names it" if inside else f"it is not in {folder}"
        remedy = "Put it beside the other recipes; `babelray init` writes a copy of a shipped one."
        raise RecipeError(f"the recipe {recipe} would not be sent: {reason}", remedy)
    return inside


def _runtime_env(folder: Path) -> dict[str, Any]:
    file = folder / RUNTIME_ENV
    values = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if not isinstance(values, dict):
        raise RecipeError(f"{file}: not a mapping of keys to values", "It is a runtime environment of Ray.")
    return values


def _variables(names: Sequence[str]) -> dict[str, str]:
    for name in names:
        if name not in os.environ:
            raise RecipeError(f"--env {name}: this variable is not set", f"export {name}=… first.")
    return {name: os.environ[name] for name in names}
