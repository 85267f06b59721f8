"""Overhead of a sweep. Prints one line of JSON.

    python tests/benchmarks/sweep.py --trials 200

Each trial learns a tiny simulated world. The sweep is run twice: the second one reuses every artifact of the first, so
that its trials do nothing and all its time is overhead: Tune, records, MLflow, and at the end the page.

first_seconds       seconds per trial in the first sweep, with the work of the trial
overhead_seconds    seconds per trial in the second sweep, with the start of Ray and the page
driver_megabytes    the driver's peak memory in the second sweep
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

from support.sweep_data import space_file

ROOT = Path(__file__).resolve().parents[2]


def sweep(space: Path, *overrides: str) -> tuple[float, float]:
    """Seconds, and the driver's peak memory in megabytes."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "babelray.commands.app", "sweep", str(space), *overrides],
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), "HOME": str(space.parent)},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, "the sweep failed"
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory(prefix="babelray-sweep-") as folder:
        parameters = {"simulate.turn": {"uniform": [0, 180]}, "simulate.tested": {"integers": [1, 20]}}
        space = space_file(Path(folder), search="random", trials=trials, parameters=parameters, paper={})
        first, _ = sweep(space)
        again, memory = sweep(space, "sweep.name=again")
    figures = {"first_seconds": first / trials, "overhead_seconds": again / trials, "driver_megabytes": memory}
    print(json.dumps({"trials": trials} | {name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
