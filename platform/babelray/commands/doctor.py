"""The command `doctor`: checks of this machine, each with its result and, if something is wrong, the remedy."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from babelray.cluster import session as cluster
from babelray.commands.options import console
from babelray.errors import BabelrayError
from babelray.storage import Location
from babelray.tracking.tracker import tracking_uri


@dataclass(frozen=True)
class Check:
    name: str
    state: Literal["ok", "warning", "error"]
    result: str
    remedy: str = ""


MARKS = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "error": "[red]✗[/]"}


def doctor(
    storage: Annotated[str, typer.Option(help="The storage whose disk or bucket is checked.")] = "runs",
) -> None:
    """Check Python, devices, Ray, DeepSpeed, disk, tracking and storage, and print remedies for what is wrong."""
    failed = False
    for check in run_checks(storage):
        console.print(f"{MARKS[check.state]} [bold]{check.name:<10}[/] {check.result}", highlight=False, soft_wrap=True)
        if check.remedy:
            console.print(f"             {check.remedy}", highlight=False, soft_wrap=True)
        failed |= check.state == "error"
    if failed:
        raise typer.Exit(2)


def run_checks(storage: str) -> Iterator[Check]:
    """All checks, one after the other."""
    yield check_python()
    yield check_memory()
    yield check_devices()
    yield check_ray()
    yield check_deepspeed()
    yield check_disk(storage)
    yield check_storage(storage)
    yield check_tracking(storage)


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"Python {version}, {os.cpu_count()} cores")


def check_memory() -> Check:
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    if gigabytes < 4:
        return Check("memory", "warning", f"{gigabytes:.1f} GB", "The quickstart needs about 4 GB.")
    return Check("memory", "ok", f"{gigabytes:.0f} GB")


def check_devices() -> Check:
    try:
        import torch
    except ImportError as error:
        return Check("devices", "error", f"torch cannot be imported ({error})", "Install the project again: make env")
    if torch.cuda.is_available():
        names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
        return Check("devices", "ok", f"{torch.cuda.device_count()} GPU: {', '.join(sorted(names))}")
    return Check("devices", "ok", f"no GPU, torch {torch.__version__} on CPU")


def check_ray() -> Check:
    """Connect to the cluster, or start one as a run would, and run a task on it."""
    address = os.environ.get("RAY_ADDRESS") or "started on this machine with each run"
    try:
        cluster.connect()
        import ray

        version = ray.get(ray.remote(num_cpus=0)(metadata.version).remote("ray"), timeout=120)
        resources = ray.cluster_resources()
        cluster.disconnect()
    except BabelrayError as error:
        return Check("ray", "error", error.problem, error.remedy)
    counts = f"{resources.get('CPU', 0):.0f} CPU, {resources.get('GPU', 0):.0f} GPU"
    return Check("ray", "ok", f"ray {version}, {counts}, {address}")


def check_deepspeed() -> Check:
    from babelray.training.engine import import_deepspeed

    try:
        version = import_deepspeed().__version__
    except Exception as error:
        return Check("deepspeed", "error", f"cannot be imported ({error})", "Install the project again: make env")
    locks = list(Path(os.environ.get("TORCH_EXTENSIONS_DIR", Path.home() / ".cache/torch_extensions")).glob("**/lock"))
    if locks:
        remedy = f"If nothing is compiling now, delete {locks[0]}: DeepSpeed waits on it."
        return Check("deepspeed", "warning", f"deepspeed {version}, a build was interrupted", remedy)
    if not (shutil.which("gcc") or shutil.which("cc")):
        remedy = "Install gcc: DeepSpeed compiles some operators when they are first used."
        return Check("deepspeed", "warning", f"deepspeed {version}, no C compiler", remedy)
    return Check("deepspeed", "ok", f"deepspeed {version}")


def check_disk(storage: str) -> Check:
    location = Location.parse(storage)
    folder = Path.cwd() if location.is_s3 else location.path
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 2**30
    if free < 5:
        return Check("disk", "warning", f"{free:.1f} GB free at {folder}", "Free some space: 5 GB are comfortable.")
    return Check("disk", "ok", f"{free:.0f} GB free at {folder}")


def check_storage(storage: str) -> Check:
    try:
        probe = Location.parse(storage) / ".doctor"
        probe.write_bytes(b"babelray")
        probe.read_bytes()
        probe.delete()
    except BabelrayError as error:
        return Check("storage", "error", error.problem, error.remedy)
    return Check("storage", "ok", f"{Location.parse(storage)} can be written")


def check_tracking(storage: str) -> Check:
    uri = tracking_uri(storage)
    if not uri.startswith("http"):
        return Check("tracking", "ok", f"MLflow {metadata.version('mlflow')}, in a file: {uri.rpartition('@')[2]}")
    import urllib.error
    import urllib.request

    server = uri.rpartition("@")[2]
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=5):
            return Check("tracking", "ok", f"MLflow server {server} answers")
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        remedy = "Start it or correct MLFLOW_TRACKING_URI; a run works without it and sends its metrics later."
        return Check("tracking", "warning", f"MLflow server {server} does not answer ({reason})", remedy)
