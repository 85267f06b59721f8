"""A clock that jumps, by a day ahead and a day back, in the middle of a run: it ends with the same bytes.

The clock is libfaketime's (tests/servers.sh installs it), for the command and for all that it starts.
"""

import itertools
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import command
from faults.test_disk import SMALL, left

# libfaketime cannot leave alone a sleep until a moment of the monotonic clock, which is how Python sleeps.
SLEEP = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *request, struct timespec *left) {
    int before = errno;
    int failed = syscall(SYS_clock_nanosleep, clock, flags, request, left) ? errno : 0;
    errno = before;
    return failed;
}
"""
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(900),
    pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed: tests/servers.sh installs it"),
]


def test_a_clock_that_jumps(recipe_file: Callable[..., Path], tmp_path: Path) -> None:
    run = [str(recipe_file()), *SMALL]
    command.finish(command.start("run", *run, f"storage={tmp_path}/calm"))
    sleep = tmp_path / "sleep.so"
    compiler = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(sleep)]
    subprocess.run(compiler, input=SLEEP, text=True, check=True)
    clock = tmp_path / "clock"
    clock.write_text("+0")
    process = command.start(
        "run",
        *run,
        f"storage={tmp_path}/jumping",
        LD_PRELOAD=f"{sleep} {LIBRARY}",
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_CACHE_DURATION="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",  # as with a real clock that is set: time that was waited is not changed
    )
    jumps = 0
    for offset in itertools.cycle(["+1d", "-1d", "+0", "-1h", "+400d"]):
        time.sleep(3)
        if process.poll() is not None:
            break
        clock.write_text(offset)
        jumps += 1
    command.finish(process)
    print(f"the clock jumped {jumps} times")
    assert jumps > 3
    assert left(tmp_path / "jumping") == left(tmp_path / "calm")
