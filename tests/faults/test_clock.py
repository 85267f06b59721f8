"""A clock that jumps during a run: forward it has no effect; backward the command may have to be repeated.

Ray's timers use the wall clock (`deadline_timer`), not the monotonic clock: if it is set back by a day, they are late
by a day. The clock here is that of clock.c, for the command and all processes that it starts.
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.test_disk import SMALL, left
from support import command

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is missing: tests/servers.sh installs it"),
]


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, dict[str, str]]:
    """The digests of an undisturbed run; empty before the first."""
    return {}


def set_clock(folder: Path, days: int) -> None:
    with (folder / "clock").open("r+b" if (folder / "clock").exists() else "wb") as file:
        file.write((days * 24 * 3600 * 10**9).to_bytes(8, "little", signed=True))


def begun(process: subprocess.Popen[str], folder: Path, stage: str) -> None:
    """Wait until the stage has begun."""
    while not list((folder / "jumping").glob(f"{stage}/*.partial")):
        assert process.poll() is None, "it ended before the clock jumped"
        time.sleep(0.02)


@pytest.fixture
def run(
    recipe_file: Callable[..., Path], tmp_path: Path, undisturbed: dict[str, dict[str, str]]
) -> Callable[[], subprocess.Popen[str]]:
    """Starts a run whose clock is offset by the content of the file `clock`."""
    arguments = ["run", str(recipe_file()), *SMALL]
    if not undisturbed:
        command.finish(command.start(*arguments, f"storage={tmp_path}/calm"))
        undisturbed["it left"] = left(tmp_path / "calm")
    library = tmp_path / "clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", Path(__file__).with_name("clock.c"), "-o", library], check=True)
    set_clock(tmp_path, days=0)
    preload = {"LD_PRELOAD": str(library), "BABELRAY_TEST_CLOCK": str(tmp_path / "clock")}
    return lambda: command.start(*arguments, f"storage={tmp_path}/jumping", **preload)


def test_a_clock_that_jumps_ahead(
    run: Callable[[], subprocess.Popen[str]], tmp_path: Path, undisturbed: dict[str, dict[str, str]]
) -> None:
    process = run()
    begun(process, tmp_path, "corpus")  # Ray cannot start while the clock jumps
    days = 0
    while process.poll() is None:
        days += 1
        set_clock(tmp_path, days)
        time.sleep(3)
    command.finish(process)
    print(f"the clock jumped {days} times, a day ahead each time")
    assert days > 3
    assert left(tmp_path / "jumping") == undisturbed["it left"]


@pytest.mark.parametrize("stage", ["corpus", "extract", "pretrain"])
def test_a_clock_that_is_set_back(
    run: Callable[[], subprocess.Popen[str]], tmp_path: Path, undisturbed: dict[str, dict[str, str]], stage: str
) -> None:
    process = run()
    begun(process, tmp_path, stage)
    set_clock(tmp_path, days=-1)
    try:
        output, _ = process.communicate(timeout=60)
        print(f"{stage}: the clock was set back, exit code {process.returncode}")
        assert process.returncode == 0, output
    except subprocess.TimeoutExpired as late:
        command.kill_all(process)
        print(f"{stage}: the clock was set back, Ray stood still, the run was ended and started again")
        assert b"the clock went back by 86,400 s" in late.stdout
        command.finish(run())
    assert left(tmp_path / "jumping") == undisturbed["it left"]
