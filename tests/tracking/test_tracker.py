import io
import json
import sqlite3
from pathlib import Path

import pytest
from rich.console import Console

from babelray.recipe import load_recipe
from babelray.stages import pipeline
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
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking_uri(str(tmp_path)) == "http://127.0.0.1:5000"


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
