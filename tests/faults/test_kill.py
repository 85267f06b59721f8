"""`kill -9` in the middle: the run goes on by itself or with the same command, and ends with the same weights."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from conftest import ROOT

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

TRAINING = [
    "languages=[en, de]",
    "encoder.scratch.training.steps=2",
    "pretrain.steps=40",
    "pretrain.checkpoint_every=5",
    "pretrain.log_every=1",
    "pretrain.zero_stage=1",
]


EXTRACTION = ["languages=[en, de]", "encoder.scratch.training.steps=2", "extract.block_sentences=8"]


def start(
    recipe: Path, storage: Path, stage: str = "pretrain", overrides: list[str] = TRAINING
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "babelray.cli", stage, str(recipe), *overrides, f"storage={storage}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


def wait_for(
    storage: Path, process: subprocess.Popen[str], what: str = "pretrain/*.partial/work/workers/checkpoint_*"
) -> None:
    deadline = time.monotonic() + 400
    while not list(storage.glob(what)):
        assert time.monotonic() < deadline and process.poll() is None, "no checkpoint was written in time"
        time.sleep(0.05)


def train_workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Ray's processes are not children of the driver; the workers' names are those of their actors."""
    below = psutil.Process(process.pid).children(recursive=True)
    return [p for p in below if "RayTrainWorker" in " ".join(p.cmdline())]


def weights(storage: Path) -> dict[str, object]:
    (folder,) = (p for p in (storage / "pretrain").iterdir() if not p.name.endswith(".partial"))
    return load_file(folder / "encoder/model.safetensors")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return {}


@pytest.fixture
def expected(undisturbed: dict[str, object], recipe_file: Callable[..., Path], tmp_path: Path) -> dict[str, object]:
    """The weights of a run that nothing happened to; made once."""
    if not undisturbed:
        finish(start(recipe_file(), tmp_path / "undisturbed"))
        undisturbed.update(weights(tmp_path / "undisturbed"))
    return undisturbed


def same(found: dict[str, object], expected: dict[str, object]) -> bool:
    return found.keys() == expected.keys() and all(found[name].equal(expected[name]) for name in expected)


def test_a_killed_worker_is_replaced(recipe_file, tmp_path: Path, expected: dict[str, object]) -> None:
    process = start(recipe_file(), tmp_path / "runs")
    wait_for(tmp_path / "runs", process)
    workers = train_workers(process)
    assert workers
    workers[0].kill()
    finish(process)
    assert same(weights(tmp_path / "runs"), expected)


def test_a_killed_driver_goes_on_when_started_again(recipe_file, tmp_path: Path, expected: dict[str, object]) -> None:
    process = start(recipe_file(), tmp_path / "runs")
    wait_for(tmp_path / "runs", process)
    below = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    for child in below:
        if child.is_running():
            child.kill()
    output = finish(start(recipe_file(), tmp_path / "runs"))
    assert "corpus    complete, kept" in output and "align     complete, kept" in output
    assert same(weights(tmp_path / "runs"), expected)


def vectors(storage: Path) -> dict[str, object]:
    (folder,) = (p for p in (storage / "extract").iterdir() if not p.name.endswith(".partial"))
    return {file.parent.name: load_file(file)["vectors"] for file in folder.glob("vectors/*/vectors.safetensors")}


def test_a_killed_extraction_worker_costs_no_block_that_was_done(recipe_file, tmp_path: Path) -> None:
    finish(start(recipe_file(), tmp_path / "undisturbed", "extract", EXTRACTION))
    process = start(recipe_file(), tmp_path / "runs", "extract", EXTRACTION)
    blocks = "extract/*.partial/work/blocks/*/*.safetensors"
    wait_for(tmp_path / "runs", process, blocks)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob(blocks)}
    workers = train_workers(process)
    assert workers
    workers[0].kill()
    seen: set[Path] = set()
    while process.poll() is None:
        for path, when in written.items():
            with contextlib.suppress(FileNotFoundError):  # deleted when the language is done
                assert path.stat().st_mtime_ns == when, "a block was made again"
                seen.add(path)
        time.sleep(0.05)
    finish(process)
    assert seen == set(written)
    assert same(vectors(tmp_path / "runs"), vectors(tmp_path / "undisturbed"))
    assert len(vectors(tmp_path / "runs")) == 2
