"""Runs tracked by a real MLflow server with PostgreSQL, S3 and passwords, as `k8s/base/mlflow.yaml` has it."""

import io
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from babelray.pipeline.plan import plan
from babelray.recipe.load import load_recipe
from babelray.storage import Location, s3
from babelray.tracking import tracker
from babelray.tracking.tracker import Tracker
from support import servers

pytestmark = pytest.mark.slow


class Servers:
    """The three servers, and a client with the administrator's password."""

    def __init__(self, storage: servers.Server, database: servers.Server, mlflow: servers.Server) -> None:
        self.storage, self.database, self.mlflow = storage, database, mlflow

    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(self.mlflow.url)

    def runs(self, experiment: str) -> list[Any]:
        client = self.client()
        return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id], max_results=1000))

    def secrets(self) -> list[str]:
        password = self.database.url.split(":")[2].split("@")[0]
        names = ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")
        return [password, self.mlflow.env["MLFLOW_TRACKING_PASSWORD"], *(self.storage.env[name] for name in names)]


@pytest.fixture(scope="module")
def all_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    for name in ("s3", "postgres", "mlflow"):
        if reason := servers.available(name):
            pytest.skip(reason)
    folder = tmp_path_factory.mktemp("servers")
    with (
        servers.s3(folder / "s3") as storage,
        servers.postgres(folder / "postgres") as database,
        servers.mlflow(folder / "mlflow", database.url, "s3://bucket/mlflow", env=storage.env) as mlflow,
    ):
        yield Servers(storage, database, mlflow)


@pytest.fixture
def there(all_servers: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Servers]:
    """Clients have the password of MLflow and no credentials of S3."""
    for name, value in all_servers.mlflow.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield all_servers
    s3._CLIENTS.__dict__.clear()


def test_who_has_no_password_is_refused(there: Servers) -> None:
    for path in ("/", "/api/2.0/mlflow/experiments/get?experiment_id=0"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(there.mlflow.url + path)
        assert caught.value.code == 401
    request = urllib.request.Request(f"{there.mlflow.url}/", headers={"Host": "elsewhere.example"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 403


def test_a_run_is_tracked_and_its_encoder_registered(there: Servers, babelray, recipe_file, tmp_path: Path) -> None:
    """Figures in PostgreSQL, files in S3 by way of the server, and the encoder can be had by its name anywhere."""
    recipe = str(recipe_file(name="registered", languages=["en", "de"], register_as="babel@champion"))
    process = babelray("run", recipe)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "MLflow" not in process.stderr
    runs = there.runs("registered")
    assert {run.info.run_name: run.info.status for run in runs} == dict.fromkeys(
        ["registered", "corpus", "encoder", "extract", "align", "pretrain", "evaluate", "report"], "FINISHED"
    )
    (version,) = there.client().search_model_versions("name = 'babel'")
    pretrained = json.loads(next((tmp_path / "runs/pretrain").glob("*/manifest.json")).read_text())
    assert version.tags["babelray.fingerprint"] == pretrained["fingerprint"]
    assert dict(there.client().get_registered_model("babel").aliases) == {"champion": version.version}

    again = babelray("run", recipe)
    assert "nothing to do" in again.stdout and len(there.runs("registered")) == len(runs)
    moved = babelray("run", recipe, "register_as=babel")
    assert moved.returncode == 0 and len(there.client().search_model_versions("name = 'babel'")) == 1
    assert set(there.client().get_registered_model("babel").aliases) == {"champion", "newest"}

    trained = next((tmp_path / "runs/pretrain").glob("*/encoder"))
    loaded = subprocess.run(
        [sys.executable, "-c", FRESH, "models:/babel@champion", str(trained)], capture_output=True, text=True
    )
    assert loaded.returncode == 0, loaded.stderr
    onward = babelray("encoder", recipe, 'encoder={path: "models:/babel@champion"}', "name=onward", cwd=tmp_path)
    assert onward.returncode == 0, onward.stdout + onward.stderr
    manifests = [json.loads(p.read_text()) for p in (tmp_path / "runs/encoder").glob("*/manifest.json")]
    (fetched,) = [m for m in manifests if m["settings"]["encoder"]["path"]]
    assert fetched["settings"]["encoder"]["path"] == "models:/babel/1", "the version, not the alias, is what is noted"
    missing = babelray("encoder", recipe, 'encoder={path: "models:/babel@nobody"}')
    assert missing.returncode == 2 and "there is no such model, version or alias" in missing.stderr

    written = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    written += [process.stdout.encode(), process.stderr.encode()]
    for secret in there.secrets():
        assert not any(secret.encode() in content for content in written)


FRESH = """
import sys
sys.path.insert(0, "platform")
import torch
from babelray.encoder.load import load_encoder
ours, theirs = (load_encoder(path).state_dict() for path in sys.argv[1:])
assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
"""


def test_a_wrong_password_costs_only_the_view(there: Servers, babelray, recipe_file, tmp_path: Path) -> None:
    recipe = str(recipe_file(name="locked-out", languages=["en", "de"]))
    process = babelray("corpus", recipe, MLFLOW_TRACKING_PASSWORD="wrong-password")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "MLflow rejects the user or the password" in process.stdout.replace("\n", " ")
    assert "wrong-password" not in process.stdout + process.stderr
    (kept,) = (tmp_path / "runs/unsent").glob("*.jsonl")
    assert "wrong-password" not in kept.read_text()
    assert there.client().get_experiment_by_name("locked-out") is None
    process = babelray("corpus", recipe, "--force", "corpus")
    assert "of an earlier run to MLflow" in process.stdout
    assert sorted(run.info.run_name for run in there.runs("locked-out")) == ["corpus", "corpus"] + ["locked-out"] * 2
    assert not kept.exists()


def tracked(recipe_file, name: str, storage: str, during) -> tuple[str, Tracker]:
    """A stage of forty steps; `during` is called with the number of each."""
    recipe = load_recipe(recipe_file(name=name), [f"storage={storage}"])
    step = plan(recipe, "corpus")[0]
    said = io.StringIO()
    follower = Tracker.start(recipe.description(), step.fingerprint, Console(file=said, width=1000))
    with follower.stage("corpus", step.fingerprint, step.code) as child:
        for number in range(40):
            child.metrics({"loss": 1.0 / (number + 1), "other": float(number)}, number)
            during(number)
            time.sleep(0.05)
    follower.end("FINISHED")
    return said.getvalue(), follower


def assert_once(there: Servers, name: str) -> None:
    """Every figure of every step, once; every run, once."""
    runs = {run.info.run_name: run for run in there.runs(name)}
    assert sorted(run.info.run_name for run in there.runs(name)) == sorted(["corpus", name])
    assert all(run.info.status == "FINISHED" for run in runs.values())
    assert runs["corpus"].data.tags["mlflow.parentRunId"] == runs[name].info.run_id
    history = there.client().get_metric_history(runs["corpus"].info.run_id, "loss")
    assert [(m.step, m.value) for m in sorted(history, key=lambda m: m.step)] == [(i, 1.0 / (i + 1)) for i in range(40)]


@pytest.mark.fault
def test_a_server_that_is_killed_and_comes_back_gets_everything_once(
    there: Servers, recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "RETRY_SECONDS", 0.5)
    starter = threading.Thread(target=there.mlflow.start)

    def during(number: int) -> None:
        if number == 10:
            there.mlflow.kill()
            starter.start()
        if number == 39:
            starter.join()
            time.sleep(3)

    said, _ = tracked(recipe_file, "killed", str(tmp_path / "runs"), during)
    assert said.count("MLflow does not answer") == 1 and "MLflow answers again" in said
    assert_once(there, "killed")
    assert not list((tmp_path / "runs/unsent").glob("*.jsonl"))


@pytest.mark.fault
@pytest.mark.parametrize("where", ["disk", "s3"])
def test_what_a_run_could_not_send_the_next_one_sends(
    there: Servers, recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The server dies in the middle and stays away; what is kept lies in the storage, also on S3."""
    for name, value in there.storage.env.items():
        monkeypatch.setenv(name, value)
    s3._CLIENTS.__dict__.clear()
    storage = "s3://bucket/kept/runs" if where == "s3" else str(tmp_path / "runs")
    name = f"away-{where}"
    monkeypatch.chdir(tmp_path)
    try:
        tracked(recipe_file, name, storage, lambda number: there.mlflow.kill() if number == 10 else None)
    finally:
        there.mlflow.start()
    kept = Location.parse(storage) / "unsent"
    assert len(kept.files()) == 1
    content = (kept / kept.files()[0]).read_text()
    assert not any(secret in content for secret in there.secrets())
    recipe = load_recipe(recipe_file(name="next"), [f"storage={storage}"])
    said = io.StringIO()
    Tracker.start(recipe.description(), "next", Console(file=said, width=1000)).end("FINISHED")
    assert "of an earlier run to MLflow" in said.getvalue()
    assert_once(there, name)
    assert kept.files() == [] and not (tmp_path / "unsent").exists()


@pytest.mark.fault
def test_the_database_is_killed_and_comes_back(
    there: Servers, recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "RETRY_SECONDS", 0.5)

    def during(number: int) -> None:
        if number == 10:
            there.database.kill()
        if number == 20:
            there.database.start()
        if number == 39:
            time.sleep(3)

    tracked(recipe_file, "database", str(tmp_path / "runs"), during)
    assert_once(there, "database")


def test_many_at_once(there: Servers, recipe_file, tmp_path: Path) -> None:
    """Runs that begin at the same time do not take each other's place, also the first ones of an experiment."""
    recipe = load_recipe(recipe_file(name="many"), [f"storage={tmp_path}/runs"])

    def one(number: int) -> None:
        Tracker.start(recipe.description(), f"key-{number}", Console(file=io.StringIO())).end("FINISHED")

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(one, range(5)))
    assert sorted(run.data.tags["babelray.key"] for run in there.runs("many")) == [f"key-{n}" for n in range(5)]
