"""`kill -9` of a sweep: the same command resumes, keeps finished trials, and MLflow has every trial once."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from pathlib import Path

import psutil
import pytest

from support import command
from support.sweep_data import space_file

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]


def finished(folder: Path) -> dict[Path, int]:
    """The records of finished trials, and the times at which they were written."""
    found = {}
    for path in (folder / "runs/sweeps").glob("*/trials/*.json"):
        if not path.name.startswith(".") and json.loads(path.read_text())["state"] == "done":
            found[path] = path.stat().st_mtime_ns
    return found


def slow_space(folder: Path) -> Path:
    """A space whose trials take about a second."""
    turns = [float(turn) for turn in range(0, 180, 15)]
    return space_file(folder, parameters={"simulate.turn": {"values": turns}}, change={"simulate.runs": 200}, paper={})


def wait_for_trials(folder: Path, process: object, count: int) -> None:
    deadline = time.monotonic() + 400
    while len(finished(folder)) < count:
        assert process.poll() is None, "it ended before it was killed"  # type: ignore[attr-defined]
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.05)


def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    space = slow_space(tmp_path)
    kept: dict[Path, int] = {}
    for _ in range(2):
        process = command.start("sweep", str(space))
        wait_for_trials(tmp_path, process, len(kept) + 2)
        command.kill_all(process)
        assert kept.items() <= finished(tmp_path).items(), "what was done is not done again"
        kept = finished(tmp_path)
    command.finish(command.start("sweep", str(space)))
    assert kept.items() <= finished(tmp_path).items() and len(finished(tmp_path)) == 12
    with sqlite3.connect(tmp_path / "runs/mlflow.db") as database:
        runs = database.execute("select name, status from runs").fetchall()
    expected = ["trivial (sweep)", *(f"point {n}, seed 1" for n in range(12))]
    assert sorted(runs) == sorted((name, "FINISHED") for name in expected)


def test_a_trial_whose_process_is_killed_is_done_again(tmp_path: Path) -> None:
    process = command.start("sweep", str(slow_space(tmp_path)))
    wait_for_trials(tmp_path, process, 1)
    victims: list[psutil.Process] = []
    while not victims:
        assert process.poll() is None, "it ended before a trial was killed"
        below = psutil.Process(process.pid).children(recursive=True)
        victims = [p for p in below if _runs_trial(p)]
    command.kill(victims)
    output = command.finish(process)
    assert len(finished(tmp_path)) == 12 and "12 of 12 trials (12 done)" in output
    assert "process lost, starting the trial again" in output and "Traceback" not in output


def _runs_trial(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):  # it may end at any moment
        return process.name().startswith("ray::") and "_work" in "".join(process.cmdline())
    return False
