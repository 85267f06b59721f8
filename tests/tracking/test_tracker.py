import io
import json
import sqlite3
import time
from pathlib import Path

import pytest
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from rich.console import Console

from babelray.recipe import load_recipe
from babelray.stages import pipeline
from babelray.storage import Place
from babelray.tracking.sender import Sender
from babelray.tracking.tracker import Tracker, tracking_uri


def track(recipe_file, fail: bool = False) -> str:
    """A run of one stage with two steps; returns what was said."""
    recipe = load_recipe(recipe_file())
    step = pipeline.plan(recipe, "corpus")[0]
    said = io.StringIO()
    tracker = Tracker.start(recipe, step.fingerprint, Console(file=said, width=400))
    try:
        with tracker.stage("corpus", step) as child:
            child.metrics({"loss/mlm": 2.0}, 1)
            child.metrics({"loss/mlm": 1.0}, 2)
            if fail:
                raise RuntimeError("killed")
    except RuntimeError:
        tracker.end("FAILED")
    else:
        tracker.end("FINISHED")
    return said.getvalue()


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
    assert tracking_uri("s3://bucket/runs") == "", "the current folder of a job is deleted with it"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking_uri(str(tmp_path)) == tracking_uri("s3://bucket/runs") == "http://127.0.0.1:5000"


def test_an_unfinished_run_is_taken_up_again(recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track(recipe_file, fail=True)
    assert sorted(rows(tmp_path, "select name, status from runs")) == [("corpus", "FAILED"), ("small", "FAILED")]
    track(recipe_file)
    assert sorted(rows(tmp_path, "select name, status from runs")) == [("corpus", "FINISHED"), ("small", "FINISHED")]


def test_a_server_that_is_down_loses_nothing(recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    said = track(recipe_file)
    assert "MLflow does not answer" in said and "secret" not in said
    (unsent,) = (tmp_path / "runs/unsent").glob("*.jsonl")
    assert "secret" not in unsent.read_text()
    kinds = [json.loads(line).get("kind") for line in unsent.read_text().splitlines()]
    assert kinds == [None, "start", "text", "start", "metrics", "metrics", "end", "end"]

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    watched = list[str]()
    monkeypatch.setattr(Sender, "_watch", lambda sender, run: watched.append(run))
    assert "sent to MLflow what an earlier run had kept" in track(recipe_file)
    assert len(watched) == 1, "the machine's load is that of the run that goes on"
    assert not list((tmp_path / "runs/unsent").iterdir())
    assert rows(tmp_path, "select count(*) from runs") == [(4,)]
    assert rows(tmp_path, "select step, value from metrics where key = 'loss/mlm' order by step, timestamp") == [
        (1, 2.0), (1, 2.0), (2, 1.0), (2, 1.0),
    ]  # fmt: skip


def test_a_job_without_a_server_keeps_its_figures(recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("babelray.tracking.tracker.tracking_uri", lambda storage: "")
    said = track(recipe_file)
    assert "no MLFLOW_TRACKING_URI" in said and "unsent until MLflow takes them" in said
    monkeypatch.undo()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert "sent to MLflow what an earlier run had kept (7 messages)" in track(recipe_file)
    assert rows(tmp_path, "select count(*) from runs") == [(4,)]


def test_what_comes_last_is_kept_too_before_the_run_ends(
    recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that is killed in a long stage that says nothing."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    recipe = load_recipe(recipe_file())
    tracker = Tracker.start(recipe, "key", Console(file=io.StringIO()))

    def kept() -> list[str]:
        files = list((tmp_path / "runs/unsent").glob("*.jsonl"))
        return [json.loads(line).get("kind") for file in files for line in file.read_text().splitlines()]

    def wait_for(kind: str) -> None:
        deadline = time.monotonic() + 30
        while kind not in kept():
            assert time.monotonic() < deadline, kept()
            time.sleep(0.02)

    wait_for("start")
    tracker.metrics({"retrieval/after": 0.5})
    wait_for("metrics")
    tracker.file(Place.parse(tmp_path) / "report.html")  # within two seconds of the copy before
    wait_for("file")
    tracker.end("KILLED")


def test_two_first_runs_of_an_experiment(recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find no experiment, and one is a moment faster."""
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track(recipe_file)
    find, answers = MlflowClient.get_experiment_by_name, [None]
    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", lambda *a: answers.pop() if answers else find(*a))
    assert "refuses" not in track(recipe_file)
    assert not answers
    assert rows(tmp_path, "select count(*) from runs") == [(4,)]


def test_what_another_user_has_kept_is_left_to_them(
    recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException

    with monkeypatch.context() as away:
        away.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        track(recipe_file)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    send = Sender.send

    def permit(sender: Sender, message: dict[str, object]) -> None:
        if not sender.now:
            raise MlflowException("not yours", error_code=PERMISSION_DENIED)
        send(sender, message)

    monkeypatch.setattr(Sender, "send", permit)
    assert track(recipe_file) == "", "ours are sent, and nothing is said"
    assert rows(tmp_path, "select count(*) from runs") == [(2,)]
    assert len(list((tmp_path / "runs/unsent").iterdir())) == 1, "theirs are still there"
