"""`kill -9` at any moment: the run resumes by itself or by the same command, and ends with the same weights.

BABELRAY_KILLS=20 kills one training twenty times, each time at another moment; a wrong step would change the final
weights.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from support import command
from support.command import finish

KILLS = int(os.environ.get("BABELRAY_KILLS", "1"))
pytestmark = [pytest.mark.fault, pytest.mark.timeout(900 + 90 * KILLS)]
OBJECTIVES = "[{kind: mlm, batch_size: 8}, {kind: static-dcca, batch_size: 64}, {kind: transport, batch_size: 4}]"
TRAINING = [
    "languages=[en, de]",
    "encoder.scratch.training.steps=2",
    "encoder.scratch.dropout=0.1",
    "extract.method=isolated",
    f"pretrain.steps={20 + 40 * KILLS}",
    f"pretrain.objectives={OBJECTIVES}",
    "pretrain.checkpoint_every=10",
    "pretrain.log_every=5",
    f"pretrain.max_failures={KILLS}",
    "pretrain.zero_stage=2",
    "pretrain.accumulate=2",
    "pretrain.validation={every: 20, held_out: 0.1, words: 20, best: mlm}",
]
EXTRACTION = ["languages=[en, de]", "encoder.scratch.training.steps=2", "extract.block_sentences=8"]
CHECKPOINTS = "pretrain/*.partial/work/workers/checkpoint_*"


def start(
    recipe: Path, storage: Path, stage: str = "pretrain", overrides: list[str] = TRAINING
) -> subprocess.Popen[str]:
    return command.start(stage, str(recipe), *overrides, f"storage={storage}")


def wait_for(process: subprocess.Popen[str], there: Callable[[], object]) -> None:
    deadline = time.monotonic() + 400
    while not there():
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.05)


def train_workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The training workers below the driver, by the name of their actor in the command line."""
    return [p for p in psutil.Process(process.pid).children(recursive=True) if "RayTrainWorker" in _command_line(p)]


def _command_line(process: psutil.Process) -> str:
    """The command line of a process; empty if it has ended."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def weights(storage: Path) -> dict[str, object]:
    (folder,) = (p for p in (storage / "pretrain").iterdir() if not p.name.endswith(".partial"))
    return load_file(folder / "encoder/model.safetensors")


def saved_steps(storage: Path) -> list[int]:
    """The steps of the complete checkpoints, from Ray Train's record."""
    records = storage.glob("pretrain/*.partial/work/workers/checkpoint_manager_snapshot.json")
    return [result["metrics"]["step"] for r in records for result in json.loads(r.read_text())["checkpoint_results"]]


def temporary() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("babelray-checkpoint-*"))


def same(found: dict[str, object], expected: dict[str, object]) -> bool:
    return found.keys() == expected.keys() and all(found[name].equal(expected[name]) for name in expected)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def prepared(shared: Path, recipe_file: Callable[..., Path]) -> tuple[Path, dict[str, object]]:
    """A storage with all stages before training, and the weights of an undisturbed training."""
    if not (shared / "before").exists():
        finish(start(recipe_file(), shared / "making", "align"))
        shutil.copytree(shared / "making", shared / "before")
        finish(start(recipe_file(), shared / "making"))
    return shared / "before", weights(shared / "making")


def at_any_moment(storage: Path, process: subprocess.Popen[str], generator: random.Random, gone: set[int]) -> None:
    """Wait for a random moment between the start of workers that are not `gone` and a while after their checkpoint."""
    before = set(storage.glob(CHECKPOINTS))
    wait_for(process, lambda: {worker.pid for worker in train_workers(process)} - gone)
    if generator.random() < 0.75:
        wait_for(process, lambda: set(storage.glob(CHECKPOINTS)) - before)
    time.sleep(generator.uniform(0, 2.5))


@pytest.mark.parametrize("victims", ["one worker", "all workers"])
def test_killed_workers_are_replaced(recipe_file, tmp_path: Path, prepared, victims: str) -> None:
    before, expected = prepared
    storage = tmp_path / "runs"
    shutil.copytree(before, storage)
    process = start(recipe_file(), storage)
    generator, gone, there = random.Random(victims), set[int](), temporary()
    for _ in range(KILLS):
        at_any_moment(storage, process, generator, gone)
        workers = train_workers(process)
        assert workers, "the training was over before it was killed"
        gone |= {worker.pid for worker in workers}  # the others also end when one is lost
        command.kill(workers[:1] if victims == "one worker" else workers)
    finish(process)
    assert same(weights(storage), expected)
    assert temporary() <= there, "checkpoints half written by killed workers are removed"


def test_a_killed_driver_goes_on_when_started_again(recipe_file, tmp_path: Path, prepared) -> None:
    before, expected = prepared
    storage = tmp_path / "runs"
    shutil.copytree(before, storage)
    generator = random.Random("driver")
    for _ in range(KILLS):
        process = start(recipe_file(), storage)
        at_any_moment(storage, process, generator, set())
        command.kill_all(process)
    saved = saved_steps(storage)
    output = finish(start(recipe_file(), storage))
    assert "align     complete, kept" in output
    assert ("resumed at" in output) == bool(saved)
    assert not saved or f"resumed at step {max(saved)}" in output, "what is saved is not done again"
    assert same(weights(storage), expected)


def test_ctrl_c_in_training_is_said_and_the_same_command_goes_on(recipe_file, tmp_path: Path, prepared) -> None:
    before, expected = prepared
    storage = tmp_path / "runs"
    shutil.copytree(before, storage)
    process = start(recipe_file(), storage)
    wait_for(process, lambda: list(storage.glob(CHECKPOINTS)))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "stopped; run the same command again to resume" in output
    finish(start(recipe_file(), storage))
    assert same(weights(storage), expected)


def vectors(storage: Path) -> dict[str, object]:
    (folder,) = (p for p in (storage / "extract").iterdir() if not p.name.endswith(".partial"))
    return {file.parent.name: load_file(file)["vectors"] for file in folder.glob("vectors/*/vectors.safetensors")}


def test_a_killed_extraction_worker_costs_no_block_that_was_done(recipe_file, tmp_path: Path) -> None:
    finish(start(recipe_file(), tmp_path / "undisturbed", "extract", EXTRACTION))
    process = start(recipe_file(), tmp_path / "runs", "extract", EXTRACTION)
    blocks = "extract/*.partial/work/blocks/*/*.safetensors"
    wait_for(process, lambda: list((tmp_path / "runs").glob(blocks)))
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob(blocks)}
    workers = train_workers(process)
    assert workers
    workers[0].kill()
    seen: set[Path] = set()
    while process.poll() is None:
        for path, when in written.items():
            with contextlib.suppress(FileNotFoundError):  # deleted when the language is complete
                assert path.stat().st_mtime_ns == when, "a block was made again"
                seen.add(path)
        time.sleep(0.05)
    finish(process)
    assert seen == set(written)
    assert same(vectors(tmp_path / "runs"), vectors(tmp_path / "undisturbed"))
    assert len(vectors(tmp_path / "runs")) == 2
