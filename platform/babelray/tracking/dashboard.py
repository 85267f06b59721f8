"""The MLflow dashboard of the runs in a folder, served on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from babelray.errors import BabelrayError
from babelray.tracking.client import connect
from babelray.tracking.tracker import tracking_uri

if TYPE_CHECKING:
    from rich.console import Console

GRACE_SECONDS = 10.0
"""Time in which the server may end by itself."""


def serve(storage: str, port: int, console: Console) -> None:
    """Serve the MLflow dashboard on this machine only, until Ctrl-C; print the address of the newest runs."""
    uri = tracking_uri(storage)
    if not uri.startswith("sqlite:///"):
        raise BabelrayError("MLFLOW_TRACKING_URI names a running server", "Open its address in a browser.")
    if not Path(uri.removeprefix("sqlite:///")).exists():
        raise BabelrayError(f"there are no tracked runs in {storage}", "Run a recipe first: make run")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise BabelrayError(f"port {port} is in use, perhaps by another dashboard", "Choose another with --port.")
    with _server(uri, port) as server:
        console.print("starting the dashboard …", highlight=False)
        _wait_until_it_answers(server, port, _log_file(uri))
        console.print(f"Dashboard: {dashboard_address(uri, port)}", highlight=False, soft_wrap=True)
        console.print("Press Ctrl-C to stop it.", highlight=False)
        with contextlib.suppress(KeyboardInterrupt):
            server.wait()


@contextlib.contextmanager
def _server(uri: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """An MLflow server whose messages go into a file beside its database; it ends with the block, or with SIGTERM."""
    defaults = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command = ["-m", "mlflow", "server", "--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1"]
    with _log_file(uri).open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, *command], env=defaults | os.environ, stdout=log, stderr=log, start_new_session=True
        )
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield server
    finally:
        signal.signal(signal.SIGTERM, before)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _log_file(uri: str) -> Path:
    return Path(uri.removeprefix("sqlite:///")).with_name("dashboard.log")


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import urllib.error
    import urllib.request

    while server.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5),
        ):
            return
        time.sleep(0.3)
    lines = log.read_text().splitlines()
    raise BabelrayError(f"the dashboard ended: {lines[-1] if lines else 'without a message'}", "Choose another --port.")


def dashboard_address(uri: str, port: int) -> str:
    """The page of the experiment with the newest run."""
    mlflow = connect(uri)
    experiments = [experiment.experiment_id for experiment in mlflow.search_experiments()]
    newest = mlflow.search_runs(experiments, max_results=1, order_by=["attributes.start_time DESC"])
    page = f"experiments/{newest[0].info.experiment_id}/runs" if newest else "experiments"
    return f"http://127.0.0.1:{port}/#/{page}"
