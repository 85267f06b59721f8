"""A full disk is reported, nothing is half-written; with free space, the same command ends with the same bytes."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import command
from support.command import STAGES, is_result

HURT = ["corpus", "encoder", "extract", "pretrain"]
"""The stages that take long enough to be interrupted halfway."""
SMALL = [
    "languages=[en, de]",
    "encoder.scratch.training.steps=2",
    "extract.block_sentences=8",
    "pretrain.steps=20",
    "pretrain.checkpoint_every=5",
]
pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="a small disk is mounted by root"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A separate disk, with space for the run and little more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "babelray", str(folder)]
    done = subprocess.run(mount, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Fill the remaining space, and space that is freed meanwhile."""
    with (disk / "filler").open("ab", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))


def left(storage: Path) -> dict[str, str]:
    """Digests of the files of a run's complete artifacts, without those that record time and place."""
    files = {p.relative_to(storage).as_posix(): p for p in storage.rglob("*") if p.is_file()}
    return {name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in files.items() if is_result(name)}


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, dict[str, str]]:
    """The digests of an undisturbed run; empty before the first."""
    return {}


@pytest.mark.parametrize("stage", HURT)
def test_a_full_disk_is_said_and_costs_nothing_that_was_done(
    recipe_file: Callable[..., Path], tmp_path: Path, disk: Path, stage: str, undisturbed: dict[str, dict[str, str]]
) -> None:
    run = [str(recipe_file()), *SMALL]
    if not undisturbed:
        command.finish(command.start("run", *run, f"storage={tmp_path}/calm"))
        undisturbed["it left"] = left(tmp_path / "calm")
    storage = disk / "runs"
    process = command.start("run", *run, f"storage={storage}")
    while not list(storage.glob(f"{stage}/*.partial")):
        assert process.poll() is None, "it ended before the disk was full"
        time.sleep(0.02)
    done = left(storage)
    while process.poll() is None:
        fill(disk)
        time.sleep(0.1)
    output, _ = process.communicate(timeout=60)
    print(f"{stage}: the disk was full, exit code {process.returncode}:", *output.splitlines()[-2:], sep="\n")
    assert process.returncode == 2, output
    assert "no space left on the device" in output
    assert "Traceback" not in output
    assert not list(storage.glob(f"{stage}/*/manifest.json")), "what is not whole has no manifest"
    (disk / "filler").unlink()
    output = command.finish(command.start("run", *run, f"storage={storage}"))
    for earlier in STAGES[: STAGES.index(stage)]:
        assert f"{earlier:<9} complete, kept" in output
    found = left(storage)
    assert found == undisturbed["it left"]
    assert done.items() <= found.items()
