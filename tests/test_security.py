"""Nothing that is read runs code; no name leads out of its folder; what we start listens on this machine only."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from babelray.encoder.load import load_encoder, load_masked_lm, load_tokenizer, load_with_head
from babelray.errors import BabelrayError, DataError, RecipeError, StorageError, TrainingError
from babelray.mapping.linear import LinearMapping
from babelray.recipe.load import load_recipe
from babelray.storage import Location, s3
from babelray.storage.artifact import MANIFEST, Artifact
from babelray.training.checkpoint import Checkpoint
from babelray.vectors.word_vectors import WordVectors

ROOT = Path(__file__).resolve().parents[1]
OURS = [p for folder in ("platform", "jobs", "tune") for p in sorted((ROOT / folder).rglob("*.py"))]


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "executed"


@pytest.fixture
def bombs(mark: Path, tmp_path: Path) -> dict[str, bytes]:
    """The ways in which Python's libraries pickle."""
    import io

    import numpy as np

    saved, array = io.BytesIO(), io.BytesIO()
    torch.save({"weight": Bomb(mark)}, saved)
    np.save(array, np.array([Bomb(mark)], dtype=object), allow_pickle=True)
    return {"pickle": pickle.dumps(Bomb(mark)), "torch": saved.getvalue(), "numpy": array.getvalue()}


def test_the_bombs_work(bombs: dict[str, bytes], mark: Path) -> None:
    """Or else the tests below could not fail."""
    pickle.loads(bombs["pickle"])
    assert mark.is_dir()


@pytest.mark.parametrize("kind", ["pickle", "torch", "numpy"])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.safetensors", "pytorch_model.pt"])
def test_no_weights_are_unpickled(
    bombs: dict[str, bytes], mark: Path, tiny_encoder: str, tmp_path: Path, kind: str, name: str
) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, folder)
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(bombs[kind])
    for load in (load_masked_lm, load_encoder, lambda path: load_with_head(path, "tagging", ["a", "b"])):
        with pytest.raises(DataError, match="cannot load the encoder") as caught:
            load(str(folder))
        assert "model.safetensors" in caught.value.remedy
    assert not mark.exists()


def test_code_beside_an_encoder_does_not_run(tiny_encoder: str, tmp_path: Path, mark: Path) -> None:
    """`auto_map` in its config asks for that; nobody is asked whether they agree."""
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, folder)
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(mark)!r})\nclass Evil: pass\n")
    classes = ["AutoConfig", "AutoModel", "AutoModelForMaskedLM", "AutoTokenizer", "AutoModelForTokenClassification"]
    for file in ("config.json", "tokenizer_config.json"):
        content = json.loads((folder / file).read_text())
        content |= {"auto_map": dict.fromkeys(classes, "evil.Evil"), "model_type": "evil", "tokenizer_class": "Evil"}
        (folder / file).write_text(json.dumps(content))
    for load in (load_masked_lm, load_encoder, load_tokenizer, lambda p: load_with_head(p, "tagging", ["a"])):
        with pytest.raises(DataError, match="cannot load the encoder"):
            load(str(folder))
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["pickle", "torch", "numpy"])
def test_no_vectors_mapping_or_checkpoint_is_unpickled(
    bombs: dict[str, bytes], mark: Path, tmp_path: Path, kind: str
) -> None:
    location = Location.parse(tmp_path)
    WordVectors(["a", "b"], torch.eye(2), [2, 1]).save(location / "vectors")
    (tmp_path / "vectors/vectors.safetensors").write_bytes(bombs[kind])
    with pytest.raises(DataError, match="is not a safetensors file"):
        WordVectors.load(location / "vectors")
    LinearMapping(torch.zeros(2), torch.eye(2)).save(location / "mapping")
    (tmp_path / "mapping/mapping.safetensors").write_bytes(bombs[kind])
    with pytest.raises(DataError, match="is not a safetensors file"):
        LinearMapping.load(location / "mapping")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint/state.json").write_text(json.dumps({"workers": 1}))
    (tmp_path / "checkpoint/shard-00000.safetensors").write_bytes(bombs[kind])
    with pytest.raises(TrainingError, match="is damaged"):
        Checkpoint(tmp_path / "checkpoint")
    (tmp_path / "checkpoint/state.json").write_bytes(bombs[kind])
    with pytest.raises(TrainingError, match="is damaged"):
        Checkpoint(tmp_path / "checkpoint")
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / MANIFEST).write_bytes(bombs[kind])
    with pytest.raises(BabelrayError):
        Artifact.load(location / "artifact")
    assert not mark.exists()


FORBIDDEN = {"torch.load", "np.load", "numpy.load", "eval", "exec", "os.system", "os.popen", "joblib.load"}


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func)


@pytest.mark.parametrize("path", OURS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_code_of_ours_can_run_what_it_reads(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found = [n for n in names if n.split(".")[0] in ("pickle", "cloudpickle", "dill", "marshal", "shelve")]
            assert not found, f"line {node.lineno}: {found}"
        if isinstance(node, ast.Call):
            name = _called(node)
            assert name not in FORBIDDEN and not name.endswith(".read_pickle"), f"line {node.lineno}: {name}"
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert options.get("shell", "False") == "False", f"line {node.lineno}: a shell"
            assert options.get("trust_remote_code", "False") == "False", f"line {node.lineno}: {name}"
            assert options.get("allow_pickle", "False") == "False", f"line {node.lineno}: {name}"
            if name in ("yaml.load", "yaml.load_all"):
                assert options.get("Loader") == "_StrictLoader", f"line {node.lineno}: {name}"


def test_yaml_makes_no_objects(recipe_file, mark: Path) -> None:
    path = recipe_file()
    path.write_text(path.read_text() + f"data: !!python/object/apply:os.mkdir [{str(mark)!r}]\n")
    with pytest.raises(RecipeError, match=r"line \d+"):
        load_recipe(path)
    with pytest.raises(RecipeError):
        load_recipe(recipe_file(), [f"data=!!python/object/apply:os.mkdir [{str(mark)!r}]"])
    assert not mark.exists()


OUTSIDE = ["../x", "../../x", "/etc/x", "a/../../x", "..", ".", "", "a\n../b", "a\x00b"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize(
    "key", ["name", "experiment", "register_as", "languages", "extra_languages", "variants", "task"]
)
def test_no_name_in_a_recipe_leads_out_of_the_storage(recipe_file, key: str, name: str) -> None:
    extra = {"code": name, "name": "x", "native": "x", "family": "x", "script": "Latn", "iso639_3": "xxx"}
    changes: dict[str, object] = {
        "languages": {"languages": ["en", name]},
        "extra_languages": {"extra_languages": [extra], "languages": ["en", name]},
        "variants": {"variants": {name: {}}},
        "task": {"evaluate": {"tasks": [{"task": "tatoeba", "data": "x", "name": name}]}},
    }.get(key, {key: name})
    with pytest.raises(RecipeError):
        load_recipe(recipe_file(**changes))


@pytest.mark.parametrize("name", ["a", "team/a", "My first try", "a.b-c_d"])
def test_names_of_experiments(recipe_file, name: str) -> None:
    assert load_recipe(recipe_file(experiment=name)).experiment == name


def test_no_name_in_a_manifest_leads_out_of_the_artifact(tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    location = Location.parse(tmp_path / "report/abc")
    files = {"../../secret.html": {"bytes": 6, "digest": "x"}}
    manifest = {"stage": "report", "fingerprint": "abc", "metrics": {}, "files": files}
    (location / MANIFEST).write_json(manifest)
    with pytest.raises(BabelrayError, match=r"secret\.html is missing"):
        Artifact.load(location)


class Bucket:
    """An S3 client whose bucket holds keys that someone else has chosen."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def get_paginator(self, name: str) -> Bucket:
        return self

    def paginate(self, **options: str) -> list[dict[str, list[dict[str, object]]]]:
        return [{"Contents": [{"Key": key, "Size": 1} for key in self.keys]}]


@pytest.mark.parametrize(
    "key", ["enc/../../../outside", "enc/a/../../b", "enc/..", "enc//etc/passwd", "enc/a//b", "enc/./b"]
)
def test_no_key_in_a_bucket_leads_out_of_the_copy(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "client", lambda: Bucket("enc/config.json", key))
    with pytest.raises(StorageError, match="lead out of its folder"):
        Location.parse("s3://bucket/enc").files()
    monkeypatch.setattr(s3, "client", lambda: Bucket("enc/", "enc/a..b/", "enc/config.json", "enc/a..b/..c"))
    assert Location.parse("s3://bucket/enc").files() == ["a..b/..c", "config.json"]


@pytest.mark.parametrize("path", ["models:/../x/1", "models:/a@../b", "models:/a/../b", "models:/a/b/1", "models:/"])
def test_no_name_of_a_model_leads_out_of_the_cache(path: str) -> None:
    from babelray.tracking.registry import download_version

    with pytest.raises(DataError, match="cannot understand"):
        download_version(path, "http://127.0.0.1:9")


def test_the_dashboard_is_for_this_machine_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from babelray.tracking import dashboard

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow.db").touch()
    started: list[list[str]] = []

    class Server:
        pid = 2**22  # no process has this number

        def __init__(self, command: list[str], **options: object) -> None:
            started.append(command)

        def poll(self) -> int:
            return 1

        def wait(self, timeout: float) -> int:
            return 1

    monkeypatch.setattr(dashboard.subprocess, "Popen", Server)
    with pytest.raises(BabelrayError, match="the dashboard ended: without a message"):
        dashboard.serve(str(tmp_path), 5871, Console(quiet=True))
    ((program, *command),) = started
    assert program == sys.executable
    assert command[command.index("--host") + 1] == "127.0.0.1"


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(StorageError) as caught:
        Location.parse("s3://key:topsecret@bucket/x")
    assert "topsecret" not in str(caught.value)


LISTENERS = """
import os, subprocess, sys
import psutil
from babelray.cluster import session as cluster

cluster.connect()
import ray

ask = "import sys; from ray._raylet import GcsClient; print(len(GcsClient(sys.argv[1]).get_all_node_info()))"
without = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
for env in (os.environ, {**without, "RAY_AUTH_MODE": "disabled"}, {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}):
    command = [sys.executable, "-c", ask, ray.get_runtime_context().gcs_address]
    print(subprocess.run(command, env=env, capture_output=True).returncode, file=sys.stderr)
everyone = {process.pid for process in psutil.Process().children(recursive=True)}
for connection in psutil.net_connections("inet"):
    if connection.status == psutil.CONN_LISTEN and connection.pid in everyone:
        print(connection.laddr.ip)
cluster.disconnect()
"""


@pytest.mark.integration
def test_a_ray_that_is_started_here_is_for_its_user_on_this_machine_only(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": str(ROOT / "platform"), "HOME": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-c", LISTENERS], env=environment, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr.split()[-3:] == ["0", "1", "1"], "only who has the token is answered"
    addresses = process.stdout.split()
    assert len(addresses) > 3
    assert {address.removeprefix("::ffff:") for address in addresses} == {"127.0.0.1"}
