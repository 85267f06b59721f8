"""`make cluster`: a whole cluster on this machine, and a small run on it.

A Ray head and two workers, each in its own network namespace, S3, PostgreSQL, and MLflow with passwords. The run is
submitted from outside, as by a user. The cluster then waits for further runs until Ctrl-C; without a terminal it stops
at once. Its data stay until `make cluster-down`, and the next `make cluster` continues with them.

    python tests/multinode/up.py [FOLDER]
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from babelray.errors import INTERRUPTED
from multinode import keeper
from multinode.nodes import available
from support import servers

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cluster"
RUN = [
    "jobs/recipes/quickstart.yaml",
    "name=cluster",
    "storage=s3://babelray/runs",
    "languages=[en, de, sw]",
    "pretrain.steps=20",
]


def main(folder: Path = FOLDER) -> int:
    if missing := [why for name in ("s3", "postgres", "mlflow") if (why := servers.available(name))]:
        print("\n".join(missing), file=sys.stderr)
        return 2
    if (folder / keeper.READY).exists() and keeper.running(folder):
        print("The cluster is up, from another terminal.")
        return run(folder)
    keeper.stop(folder)
    if Path(f"/sys/class/net/{keeper.LABEL}0").exists():
        print(f"another cluster has the bridge {keeper.LABEL}0: end that first", file=sys.stderr)
        return 2
    if why := available():
        print(f"One node on loopback instead of three that are apart: {why}.")
    print("Starting S3, PostgreSQL, MLflow and Ray: a minute or two.", flush=True)
    try:
        start(folder)
        code = run(folder)
        if sys.stdin.isatty():
            with contextlib.suppress(KeyboardInterrupt, EOFError):
                input("The cluster is up. Enter or Ctrl-C ends it.\n")
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        print("Ending the cluster. `make cluster` goes on with its data, `make cluster-down` deletes them.", flush=True)
        keeper.stop(folder)


def run(folder: Path) -> int:
    ready = json.loads((folder / keeper.READY).read_text())
    show(folder, ready)
    began = time.monotonic()
    command = [str(Path(sys.executable).parent / "babelray"), "submit", *RUN]
    print(f"\n{' '.join(command)}", flush=True)
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **ready["ray"]}).returncode
    print(f"The run took {time.monotonic() - began:.0f} s.", flush=True)
    return code


def start(folder: Path, patience: float = 600) -> None:
    process = keeper.start(folder)
    deadline = time.monotonic() + patience
    while not (folder / keeper.READY).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            keeper.stop(folder)
            sys.exit(f"the cluster did not start:\n{(folder / 'keeper.log').read_text(errors='replace')[-3000:]}")
        time.sleep(0.3)


def show(folder: Path, ready: dict[str, dict[str, str]]) -> None:
    took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in ready["took"].items())
    ray, mlflow = ready["ray"], ready["mlflow"]
    print(f"Started: {took}")
    print(f"Ray      {ray['RAY_ADDRESS']}   asks for the token in {ray['RAY_AUTH_TOKEN_PATH']}")
    print(f"MLflow   {mlflow['MLFLOW_TRACKING_URI']}   user admin, password in {folder / 'mlflow/password'}")
    print(f"S3       {ready['s3']['AWS_ENDPOINT_URL']}   bucket babelray")
    print("Your own run:")
    print("  " + " ".join(f"export {name}={value};" for name, value in ray.items()))
    print("  babelray submit RECIPE storage=s3://babelray/runs")


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
