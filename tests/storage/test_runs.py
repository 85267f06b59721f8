from __future__ import annotations

import json
from pathlib import Path

import pytest

from babelray.errors import ArtifactError, DataError
from babelray.storage import Location
from babelray.storage.artifact import partial_of
from babelray.storage.lock import exclusive_lock
from babelray.storage.runs import clean, find_artifact, find_encoder, stored_artifacts, unfinished_work

OLD, NEW = "0123456789abcdef", "fedcba9876543210"


def artifact(storage: Path, stage: str, key: str, created: str, *files: str) -> Path:
    folder = storage / stage / key
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    manifest = {
        "stage": stage,
        "fingerprint": key,
        "created": created,
        "seconds": 3.0,
        "metrics": {},
        "settings": {"layer": -1},
        "files": {name: {"bytes": 2} for name in files},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    artifact(runs, "pretrain", OLD, "2026-01-02T00:00:00+00:00", "encoder/config.json")
    artifact(runs, "pretrain", NEW, "2026-02-01T00:00:00+00:00", "encoder/config.json")
    artifact(runs, "corpus", OLD, "2026-01-01T00:00:00+00:00", "statistics.json")
    artifact(runs, "expose", OLD, "2026-01-03T00:00:00+00:00", "de-en/encoder/config.json", "zh-en/encoder/config.json")
    (runs / "pretrain" / f"{'a' * 16}.partial" / "work").mkdir(parents=True)
    (runs / "sweeps" / "x").mkdir(parents=True)
    (runs / "mlflow.db").write_text("")
    return runs


def test_the_newest_artifact_is_the_first(storage: Path) -> None:
    artifacts = stored_artifacts(storage)
    assert [(entry.stage, entry.location.name) for entry in artifacts] == [
        ("pretrain", NEW),
        ("expose", OLD),
        ("pretrain", OLD),
        ("corpus", OLD),
    ]
    assert artifacts[0].bytes == 2 and [entry.location.name for entry in stored_artifacts(storage, "corpus")] == [OLD]


def test_latest_and_beginnings_of_fingerprints(storage: Path) -> None:
    newest = Location.parse(storage / "pretrain" / NEW)
    assert find_artifact(storage / "pretrain/latest") == newest
    assert find_artifact(storage / "pretrain/latest/encoder") == newest / "encoder"
    assert find_artifact(storage / "pretrain/fedc") == newest
    assert find_artifact(storage / "pretrain" / NEW) == newest
    assert find_artifact("elsewhere/dead") == Location.parse("elsewhere/dead")
    with pytest.raises(ArtifactError, match=r"there is no complete artifact in .*/align"):
        find_artifact(storage / "align/latest")
    (storage / "pretrain/latest").mkdir()
    assert find_artifact(storage / "pretrain/latest").name == "latest", "a folder of that name is itself"


def test_the_encoder_of_an_artifact(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (storage / "pretrain" / NEW, storage / "pretrain/latest", storage / "pretrain/latest/encoder"):
        assert find_encoder(path) == str(storage / "pretrain" / NEW / "encoder")
    for name in ("xlm-roberta-base", "someone/encoder", "models:/babel@champion", "s3://bucket/encoder", "/nowhere"):
        assert find_encoder(name) == name
    monkeypatch.chdir(storage)
    (storage / "my/encoder").mkdir(parents=True)
    assert find_encoder("my/encoder") == "my/encoder", "relative paths stay: they are part of fingerprints"
    with pytest.raises(DataError, match="of the stage corpus, which holds no encoder"):
        find_encoder(storage / "corpus/latest")
    with pytest.raises(DataError, match="which holds several") as caught:
        find_encoder(storage / "expose/latest")
    assert "expose/0123456789abcdef/zh-en/encoder" in caught.value.remedy


def test_unfinished_work_is_deleted_unless_a_run_is_busy_there(storage: Path) -> None:
    (work,) = unfinished_work(storage)
    final = Location(work.uri.removesuffix(".partial"))
    assert partial_of(final) == work
    with exclusive_lock(final):
        assert list(clean([work])) == [(work, False)] and work.exists()
    assert list(clean([work])) == [(work, True)] and not work.exists()


def test_the_command(cli, storage: Path) -> None:
    shown = cli("runs", cwd=storage.parent)
    assert shown.returncode == 0 and shown.stdout.index(NEW) < shown.stdout.index(OLD)
    assert "unfinished" in shown.stdout and "2026-02-01 00:00" in shown.stdout
    only = cli("runs", "list", "corpus", "--storage", str(storage))
    assert OLD in only.stdout and NEW not in only.stdout and "unfinished" not in only.stdout
    assert cli("runs", "latest", "pretrain", cwd=storage.parent).stdout.strip() == str(storage / "pretrain" / NEW)
    assert "there is no stage 'pretrian'" in cli("runs", "latest", "pretrian", cwd=storage.parent).stderr
    assert "layer: -1" in cli("runs", "show", "runs/pretrain/latest", cwd=storage.parent).stdout
    assert "no artifact at" in cli("runs", "show", "runs/pretrain/none", cwd=storage.parent).stderr
    listed = cli("runs", "clean", cwd=storage.parent)
    assert ".partial" in listed.stdout and unfinished_work(storage)
    assert "deleted" in cli("runs", "clean", "--yes", cwd=storage.parent).stdout and not unfinished_work(storage)
    assert "no unfinished work" in cli("runs", "clean", cwd=storage.parent).stdout
    assert "nothing in" in cli("runs", cwd=storage).stdout


def test_an_encoder_loads_from_an_artifact(tiny_encoder: str, tmp_path: Path) -> None:
    from babelray.encoder.load import read_config

    folder = artifact(tmp_path, "pretrain", NEW, "2026-02-01")
    (folder / "encoder").symlink_to(tiny_encoder)
    assert read_config(tmp_path / "pretrain/latest").num_hidden_layers == 2
    with pytest.raises(DataError, match=r"there is no folder .*/pretrain/missing/x with an encoder"):
        read_config(tmp_path / "pretrain/missing/x")
