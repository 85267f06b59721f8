"""Trials of a sweep in MLflow's own view of several runs, as a browser shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT
from support.sweep_data import space_file

MISSING = shutil.which("chromium") is None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MISSING, reason="no chromium: tests/browser/install.sh installs it"),
]
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --virtual-time-budget=60000 --window-size=1600,1600 --dump-dom"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def test_trials_can_be_compared(tmp_path: Path, babelray: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    process = babelray("sweep", str(space_file(tmp_path)), "sweep.trials=3")
    assert process.returncode == 0, process.stdout + process.stderr
    with sqlite3.connect(tmp_path / "runs/mlflow.db") as database:
        runs = database.execute("select run_uuid, experiment_id from runs where name like 'point %'").fetchall()
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [
        sys.executable,
        "-m",
        "babelray.commands.app",
        "dashboard",
        "--storage",
        f"{tmp_path}/runs",
        "--port",
        str(port),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 180
        while not answers(address):
            assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "server.log").read_text()[-2000:]
            time.sleep(1)
        chosen = urllib.parse.urlencode(
            {"runs": json.dumps([run for run, _ in runs]), "experiments": json.dumps([str(runs[0][1])])}
        )
        page = subprocess.run(
            ["chromium", *OPTIONS.split(), f"--user-data-dir={tmp_path}/profile", f"{address}/#/compare-runs?{chosen}"],
            capture_output=True,
            text=True,
            timeout=180,
        ).stdout
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
    text = re.sub(r"<[^>]+>", " ", page)
    assert "Comparing 3 Runs from 1 Experiment" in text
    for name in ("simulate.turn", "simulate.t.0", "trial_seed", "p1/mean", "point 0, seed 1", "point 2, seed 1"):
        assert name in text, name
