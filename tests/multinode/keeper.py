"""The supervisor of `make cluster`: it starts the servers and nodes, and stops them on SIGTERM.

It is the first process of its own namespace: when it ends, for whatever reason, all processes that it started end too.

    python tests/multinode/keeper.py FOLDER
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from multinode.nodes import Nodes, available, remove
from support import servers

LABEL, SUBNET = "bray", "10.199.0"
STATE, READY = "state.json", "ready.json"


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the keeper and record its process before it does anything."""
    folder.mkdir(parents=True, exist_ok=True)
    isolation = [] if available() else ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    with (folder / "keeper.log").open("wb") as log:
        process = subprocess.Popen(
            [*isolation, sys.executable, __file__, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _note(folder, [psutil.Process(process.pid)])
    return process


def running(folder: Path) -> list[psutil.Process]:
    """The keeper and its recorded processes that are alive; a PID that was reused by another process is ignored."""
    if not (folder / STATE).exists():
        return []
    found = []
    for pid, created in json.loads((folder / STATE).read_text())["processes"]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def stop(folder: Path) -> None:
    """Stop what was started here and nothing else, whatever happened to the keeper."""
    if processes := running(folder):
        keeper = processes[0]
        inner = keeper.children() if keeper.name() == "unshare" else [keeper]
        for process in inner:
            process.terminate()
        psutil.wait_procs([keeper], timeout=60)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=30)
    if (folder / STATE).exists() and (label := json.loads((folder / STATE).read_text())["network"]):
        remove(label)
    for name in (STATE, READY):
        (folder / name).unlink(missing_ok=True)


def _note(folder: Path, processes: list[psutil.Process]) -> None:
    known = [(process.pid, process.create_time()) for process in processes]
    _write(folder / STATE, {"processes": known, "network": "" if available() else LABEL})


def _write(file: Path, content: Any) -> None:
    """Write a file atomically, readable for its owner only: it contains passwords."""
    partial = file.with_suffix(".partial")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(content))
    partial.rename(file)


def keep(folder: Path) -> None:
    """Start everything in order, write READY, and wait for SIGTERM."""
    signal.signal(signal.SIGTERM, _leave)
    took: dict[str, float] = {}

    @contextlib.contextmanager
    def timed(what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        took[what] = time.monotonic() - began
        if os.getpid() != 1:  # without a namespace, started processes are identified by their PIDs
            me = psutil.Process()
            _note(folder, [me, *me.children(recursive=True)])

    with contextlib.ExitStack() as stack:
        apart = not available()
        nodes = Nodes(folder / "nodes", LABEL, SUBNET)
        if apart:
            stack.enter_context(nodes)
        host = nodes.host if apart else servers.LOOPBACK
        with timed("S3"):
            s3 = stack.enter_context(servers.s3(folder / "s3", host, bucket="babelray"))
        with timed("PostgreSQL"):
            postgres = stack.enter_context(servers.postgres(folder / "postgres", host))
        with timed("MLflow"):
            mlflow = stack.enter_context(
                servers.mlflow(folder / "mlflow", postgres.url, "s3://babelray/mlflow", host, s3.env)
            )
        env = {**s3.env, **mlflow.env, "OMP_NUM_THREADS": "1"}
        if apart:
            with timed("Ray, head"):
                nodes.start_head(env=env)
            for name in ("w1", "w2"):
                with timed(f"Ray, {name}"):
                    nodes.start_worker(name, cpus=1, env=env)
            client = nodes.env
        else:
            with timed("Ray"):
                client = _one_node(folder, env, stack)
        _write(folder / READY, {"ray": client, "mlflow": mlflow.env, "s3": s3.env, "took": took})
        while True:
            signal.pause()


def _one_node(folder: Path, env: dict[str, str], stack: contextlib.ExitStack) -> dict[str, str]:
    """Without namespaces: a head that also runs tasks, on loopback."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(os.urandom(32).hex())
    # Short, since the paths of Ray's sockets have at most 107 characters.
    files = stack.enter_context(tempfile.TemporaryDirectory(prefix="bray-", dir="/tmp", ignore_cleanup_errors=True))
    port = servers.free_port()
    client = {
        "RAY_ADDRESS": f"http://127.0.0.1:{port}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
    }
    command = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--num-cpus=2", "--block"]
    command += [f"--port={servers.free_port()}", "--dashboard-host=127.0.0.1", f"--dashboard-port={port}"]
    command += ["--node-ip-address=127.0.0.1", f"--temp-dir={files}", "--disable-usage-stats"]
    home = folder / "home"
    home.mkdir(exist_ok=True)
    settings = {**env, **client, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    del settings["RAY_ADDRESS"]
    head = servers.Server(command, folder, client["RAY_ADDRESS"], lambda: _listens(port), settings=settings)
    stack.enter_context(head)
    return client


def _listens(port: int) -> bool:
    import socket

    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
