"""`ray job submit` against a running Ray: the job scripts, the upload, and token authentication."""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import namespace
from conftest import ROOT

SCRIPT = """
set -e
ray start --head --num-cpus 2 --disable-usage-stats --temp-dir "$RAY_FOLDER" --dashboard-host 127.0.0.1 >/dev/null
export RAY_ADDRESS=http://127.0.0.1:8265
if RAY_AUTH_TOKEN= RAY_AUTH_TOKEN_PATH=/dev/null RAY_AUTH_MODE=disabled ray job list >/dev/null 2>&1; then
    echo 'a job could be listed without the token'; exit 3
fi
ray job submit --working-dir . -- python jobs/extract.py jobs/recipes/quickstart.yaml \
    storage="$SCRATCH/runs" 'languages=[en, sw]'
"""


@pytest.fixture
def ray_folder() -> Iterator[str]:
    """Short: the names of Ray's sockets may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.mark.skipif(bool(namespace.available()), reason=namespace.available())
def test_a_job_script_extracts_vectors_on_a_running_cluster(tmp_path: Path, ray_folder: str) -> None:
    process = subprocess.run(
        namespace.command("bash", "-c", SCRIPT),
        cwd=ROOT,
        env={
            **os.environ,
            "SCRATCH": str(tmp_path),
            "RAY_FOLDER": ray_folder,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        },
        capture_output=True,
        text=True,
        timeout=580,
    )
    output = process.stdout + process.stderr
    assert process.returncode == 0, output[-3000:]
    assert "succeeded" in output
    (vectors,) = (tmp_path / "runs/extract").iterdir()
    assert sorted(p.name for p in (vectors / "vectors").iterdir()) == ["en", "sw"]


def test_the_upload_is_small() -> None:
    """What .rayignore lets through: the code, the recipes, the starter corpus, and the encoder that is shipped."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    ignored = [line.rstrip("/") for line in (ROOT / ".rayignore").read_text().splitlines()]
    sent = [ROOT / name for name in listed if name and name.split("/")[0] not in ignored]
    assert sum(path.stat().st_size for path in sent if path.exists()) < 26_000_000
    assert {".git", ".venv", "runs", "tests"} <= set(ignored)
