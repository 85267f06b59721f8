"""The `babelray` command as a process that can be killed, with everything that it started."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
STAGES = ["corpus", "encoder", "extract", "align", "pretrain", "evaluate", "report"]
VARYING = ("manifest.json", "curves.json", "report.html", "README.md")
"""Files that hold speeds or times."""


def is_result(name: str) -> bool:
    """Whether a file of a storage must be the same whenever and wherever it is made, and whatever happens meanwhile."""
    return name.split("/")[0] in STAGES and ".partial/" not in name and not name.endswith(VARYING)


def start(*arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "babelray.commands.app", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait until it has ended well; returns what it said."""
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def kill_all(process: subprocess.Popen[str]) -> None:
    """The command and what it started: Ray's processes are in sessions of their own."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    kill(below)
    process.communicate(timeout=60)
