"""A whole run on S3 leaves what a run on disk leaves, byte for byte, though the server is killed in every stage."""

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from babelray.storage import Location, s3
from babelray.storage.artifact import MANIFEST
from support import servers
from support.command import STAGES, VARYING

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(1200)]

TIMES = {"created", "seconds"}
"""Fields of a manifest that say when."""
PLACES = {"inputs"}
"""Fields that say where; the fingerprints in them are the same."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Server]:
    if reason := servers.available("s3"):
        pytest.skip(reason)
    with servers.s3(tmp_path / "s3") as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        s3._CLIENTS.__dict__.clear()
        yield server
    s3._CLIENTS.__dict__.clear()


class Outages(threading.Thread):
    """Kills the server as soon as a stage has begun to write, and starts it again a while later; once a stage."""

    def __init__(self, server: servers.Server, data: Path, stages: list[str], seconds: float) -> None:
        super().__init__(daemon=True)
        self.server, self.data, self.left, self.seconds = server, data, list(stages), seconds
        self.over = threading.Event()
        self.had: list[str] = []

    def run(self) -> None:
        while self.left and not self.over.is_set():
            for stage in self.left:
                found = Location.parse(f"s3://bucket/runs/{stage}").sizes()
                if any(".partial/" in name for name in found):
                    self.server.kill()
                    time.sleep(self.seconds)
                    self.server.start()
                    self.left.remove(stage)
                    self.had.append(stage)
                    break
            time.sleep(0.05)


def without(manifest: dict[str, Any]) -> dict[str, Any]:
    """What of a manifest does not depend on when and where; digests on S3 are entity tags, so sizes are compared."""
    kept = {key: value for key, value in manifest.items() if key not in TIMES | PLACES}
    kept["files"] = {name: entry["bytes"] for name, entry in manifest["files"].items()}
    kept["inputs"] = {name: entry["fingerprint"] for name, entry in manifest["inputs"].items()}
    changing = ("speed", "peak", "bytes")  # the last is the length of the report, which holds times
    kept["metrics"] = {name: v for name, v in manifest["metrics"].items() if not any(part in name for part in changing)}
    return kept


@pytest.fixture
def ray_files() -> Iterator[Path]:
    """A folder for what Ray itself writes; its path is short: the names of Ray's sockets may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_outages_in_every_stage(server: servers.Server, babelray, recipe_file, tmp_path: Path, ray_files: Path) -> None:
    recipe = str(recipe_file(languages=["en", "de"]))
    there = Location.parse("s3://bucket/runs")
    outages = Outages(server, tmp_path / "s3", STAGES, seconds=8)
    outages.start()
    process: subprocess.CompletedProcess[str] = babelray(
        "run", recipe, f"storage={there}", cwd=tmp_path, RAY_TMPDIR=str(ray_files)
    )
    outages.over.set()
    outages.join()
    assert process.returncode == 0, process.stdout + process.stderr
    assert {"corpus", "encoder", "extract", "pretrain"} <= set(outages.had)

    local = babelray("run", recipe, cwd=tmp_path)
    assert local.returncode == 0, local.stdout + local.stderr
    here = Location.parse(tmp_path / "runs")
    ours = [n for n in there.files() if n.split("/")[0] in STAGES]
    assert ours == [n for n in here.files() if n.split("/")[0] in STAGES] and len(ours) > 30
    for name in ours:
        if name.endswith(MANIFEST):
            first, second = (without((root / name).read_json()) for root in (here, there))
            varying = {n for n in first["files"] if n.endswith(VARYING)}
            for manifest in (first, second):
                manifest["files"] = {n: size for n, size in manifest["files"].items() if n not in varying}
            assert first == second, name
        elif not name.endswith(VARYING):
            assert (here / name).read_bytes() == (there / name).read_bytes(), name

    written = [(there / name).read_bytes() for name in there.files()]
    written += [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and (tmp_path / "s3") not in p.parents]
    written += [process.stdout.encode(), process.stderr.encode()]
    logs = [p for p in ray_files.rglob("*") if p.is_file()]  # without sockets
    for part in ("raylet.out", "python-core-worker-", "worker-"):  # also of those that talked to the server
        assert any(p.name.startswith(part) and p.parent.name == "logs" for p in logs), part
    written += [p.read_bytes() for p in logs]
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        assert not any(server.env[name].encode() in content for content in written)


def test_a_long_outage_ends_the_run_and_the_same_command_goes_on(
    server: servers.Server, babelray, recipe_file, tmp_path: Path
) -> None:
    training = {"steps": 60, "checkpoint_every": 5, "objectives": [{"kind": "mlm", "batch_size": 4}]}
    recipe = str(recipe_file(languages=["en", "de"], pretrain=training))
    arguments = ["pretrain", recipe, "storage=s3://bucket/long"]
    work = Location.parse("s3://bucket/long/pretrain")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(babelray, *arguments, cwd=tmp_path)
        while not any("checkpoint_" in name and name.endswith("state.json") for name in work.files()):
            assert not running.done(), running.result().stdout + running.result().stderr
            time.sleep(0.1)
        server.kill()
        process = running.result(timeout=400)
    assert process.returncode == 2, process.stdout + process.stderr
    assert "Traceback" not in process.stderr and "S3" in process.stderr
    assert server.env["AWS_SECRET_ACCESS_KEY"] not in process.stdout + process.stderr
    server.start()
    again = babelray(*arguments, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "complete, kept" in again.stdout
    (manifest,) = [name for name in work.files() if name.endswith(MANIFEST)]
    assert json.loads((work / manifest).read_text())["metrics"]["steps"] == 60
