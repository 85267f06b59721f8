import contextlib
import io
import json
import sqlite3
import time
from pathlib import Path

import pytest
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from rich.console import Console

from babelray.storage import Location
from babelray.tracking.description import RunDescription
from babelray.tracking.sender import Sender
from babelray.tracking.tracker import Tracker, tracking_uri

pytestmark = pytest.mark.integration  # MLflow and its database


def description_of(tmp_path: Path) -> RunDescription:
    return RunDescription("small", "small", str(tmp_path / "runs"), {"seed": 1}, "name: small\n")


def track(tmp_path: Path, fail: bool = False) -> str:
    """Track a run of one stage with two steps; returns the output."""
    output = io.StringIO()
    console, error = Console(file=output, width=400), pytest.raises(RuntimeError) if fail else contextlib.nullcontext()
    with (
        error,
        Tracker.open(description_of(tmp_path), "key", console) as tracker,
        tracker.stage("corpus", "fingerprint", "code") as child,
    ):
        child.metrics({"loss/mlm": 2.0}, 1)
        child.metrics({"loss/mlm": 1.0}, 2)
        if fail:
            raise RuntimeError("killed")
    return output.getvalue()


def rows(tmp_path: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(tmp_path / "runs/mlflow.db") as database:
        return database.execute(query).fetchall()


def test_default_is_a_file_beside_the_artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri(str(tmp_path)) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.chdir(tmp_path)
    assert tracking_uri("s3://bucket/runs") == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert tracking_uri(str(tmp_path)) == f"sqlite:///{tmp_path}/mlflow.db"
    assert tracking_uri("s3://bucket/runs") == "", "the current folder of a job is deleted at its end"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking_uri(str(tmp_path)) == tracking_uri("s3://bucket/runs") == "http://127.0.0.1:5000"


def test_an_unfinished_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track(tmp_path, fail=True)
    assert sorted(rows(tmp_path, "select name, status from runs")) == [("corpus", "FAILED"), ("small", "FAILED")]
    track(tmp_path)
    assert sorted(rows(tmp_path, "select name, status from runs")) == [("corpus", "FINISHED"), ("small", "FINISHED")]


def test_a_server_that_is_down_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    output = track(tmp_path)
    assert "MLflow does not answer" in output and "secret" not in output
    (unsent,) = (tmp_path / "runs/unsent").glob("*.jsonl")
    assert "secret" not in unsent.read_text()
    kinds = [json.loads(line).get("kind") for line in unsent.read_text().splitlines()]
    assert kinds == [None, "start", "text", "start", "metrics", "metrics", "end", "end"]

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monitored = list[str]()
    monkeypatch.setattr(Sender, "_start_monitor", lambda sender, run_id: monitored.append(run_id))
    assert "saved messages of an earlier run" in track(tmp_path)
    assert len(monitored) == 1, "system metrics are those of the current run"
    assert not list((tmp_path / "runs/unsent").iterdir())
    assert rows(tmp_path, "select count(*) from runs") == [(4,)]
    assert rows(tmp_path, "select step, value from metrics where key = 'loss/mlm' order by step, timestamp") == [
        (1, 2.0), (1, 2.0), (2, 1.0), (2, 1.0),
    ]  # fmt: skip


def test_a_job_without_a_server_saves_its_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("babelray.tracking.tracker.tracking_uri", lambda storage: "")
    output = track(tmp_path)
    assert "no MLFLOW_TRACKING_URI" in output and "unsent until MLflow accepts them" in output
    monkeypatch.undo()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert "sent 7 saved messages of an earlier run" in track(tmp_path)
    assert rows(tmp_path, "select count(*) from runs") == [(4,)]


def test_the_last_messages_are_saved_before_the_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver may be killed in a long stage that sends nothing."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    tracker = Tracker.start(description_of(tmp_path), "key", Console(file=io.StringIO()))

    def saved_kinds() -> list[str]:
        files = list((tmp_path / "runs/unsent").glob("*.jsonl"))
        return [json.loads(line).get("kind") for file in files for line in file.read_text().splitlines()]

    def wait_for(kind: str) -> None:
        deadline = time.monotonic() + 30
        while kind not in saved_kinds():
            assert time.monotonic() < deadline, saved_kinds()
            time.sleep(0.02)

    wait_for("start")
    tracker.metrics({"retrieval/after": 0.5})
    wait_for("metrics")
    tracker.file(Location.parse(tmp_path) / "report.html")  # within two seconds of the copy before
    wait_for("file")
    tracker.end("KILLED")


def test_two_first_runs_of_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find no experiment, and one creates it first."""
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track(tmp_path)
    find, answers = MlflowClient.get_experiment_by_name, [None]
    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", lambda *a: answers.pop() if answers else find(*a))
    assert "refuses" not in track(tmp_path)
    assert not answers
    assert rows(tmp_path, "select count(*) from runs") == [(4,)]


def test_messages_of_another_user_are_left_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.exceptions import MlflowException

    with monkeypatch.context() as away:
        away.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        track(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    send = Sender.send

    def permit(sender: Sender, message: dict[str, object]) -> None:
        if not sender.live:
            raise MlflowException("not yours", error_code=PERMISSION_DENIED)
        send(sender, message)

    monkeypatch.setattr(Sender, "send", permit)
    assert track(tmp_path) == "", "ours are sent without a message"
    assert rows(tmp_path, "select count(*) from runs") == [(2,)]
    assert len(list((tmp_path / "runs/unsent").iterdir())) == 1, "theirs are still there"
