"""The model registry, on a SQLite file; `tests/integration/test_mlflow.py` has it on a server."""

import shutil
from pathlib import Path

import pytest

from babelray.encoder.load import locate_encoder
from babelray.errors import DataError
from babelray.storage import Location
from babelray.tracking.client import connect
from babelray.tracking.registry import download_version, find_version, register_encoder, resolve_alias

pytestmark = pytest.mark.integration  # MLflow and its database


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


def test_an_encoder_is_registered_once_and_found_by_name(uri: str, tiny_encoder: str, tmp_path: Path) -> None:
    mlflow = connect(uri)
    experiment = mlflow.create_experiment("x", artifact_location=(tmp_path / "artifacts").as_uri())
    run = mlflow.create_run(experiment).info.run_id
    other = tmp_path / "other"
    shutil.copytree(tiny_encoder, other)
    (other / "README.md").write_text("another one")
    assert register_encoder(mlflow, "babel", "champion", Location.parse(tiny_encoder), "first", run) == "1"
    assert register_encoder(mlflow, "babel", "champion", Location.parse(tiny_encoder), "first", run) == "1"
    assert resolve_alias("models:/babel@champion", uri) == "models:/babel/1"
    again = mlflow.create_run(experiment).info.run_id
    assert register_encoder(mlflow, "babel", "champion", Location.parse(other), "second", again) == "2"
    assert (find_version(mlflow, "babel", "first"), find_version(mlflow, "babel", "none")) == ("1", None)
    assert resolve_alias("models:/babel@champion", uri) == "models:/babel/2", "the alias moved"
    for path, original in (("models:/babel/1", tiny_encoder), ("models:/babel@champion", other)):
        folder = Path(locate_encoder(path))
        names = sorted(p.name for p in folder.iterdir())
        assert names == sorted(p.name for p in Path(original).iterdir())
        assert all((folder / name).read_bytes() == (Path(original) / name).read_bytes() for name in names)
    shutil.rmtree(tmp_path / "artifacts")
    assert Path(download_version("models:/babel/1", uri), "config.json").exists(), "a downloaded version is cached"


@pytest.mark.parametrize("path", ["models:/nobody@champion", "models:/nobody/1"])
def test_a_missing_model(uri: str, path: str) -> None:
    with pytest.raises(DataError, match="there is no such model, version or alias"):
        download_version(path, uri)


def test_a_registry_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(DataError, match="MLflow does not answer") as caught:
        resolve_alias("models:/babel@champion", "http://user:secret@127.0.0.1:9")
    assert "secret" not in str(caught.value)


def test_other_paths_stay_as_they_are(uri: str) -> None:
    assert resolve_alias("xlm-roberta-base", uri) == "xlm-roberta-base"
