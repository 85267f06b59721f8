from __future__ import annotations

import io
import os
import signal
import socket
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from rich.console import Console

from babelray.errors import BabelrayError
from babelray.tracking import dashboard
from support.servers import free_port


def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BabelrayError, match="is in use"):
            dashboard.serve(str(tmp_path), taken.getsockname()[1], Console(quiet=True))


@pytest.mark.slow
def test_the_dashboard_opens_on_the_newest_experiment_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(uri)
    client.create_experiment("older")
    newest = client.create_experiment("newer")
    client.create_run(newest)
    port, output = free_port(), io.StringIO()
    assert dashboard.dashboard_address(uri, port) == f"http://127.0.0.1:{port}/#/experiments/{newest}/runs"

    def press_ctrl_c_when_it_answers() -> None:
        while "Press Ctrl-C" not in output.getvalue():
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            assert answer.status == 200
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_ctrl_c_when_it_answers, daemon=True).start()
    dashboard.serve(str(tmp_path), port, Console(file=output, width=200))
    lines = output.getvalue().splitlines()
    assert lines[1].endswith(f"/#/experiments/{newest}/runs") and len(lines) == 3, "no line of a library"
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
