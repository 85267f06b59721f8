"""Jobs on a running Ray, by `ray job submit` and `babelray submit`: the scripts, the upload, token authentication."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from babelray.cluster.upload import files_to_send
from conftest import ROOT
from support import namespace

HEAD = """
set -e
for attempt in 1 2 3; do  # a busy machine does not always start Ray in the half minute that Ray allows
    ray start --head --num-cpus 2 --disable-usage-stats --temp-dir "$RAY_FOLDER" >/dev/null && break
    ray stop --force >/dev/null
done
export RAY_ADDRESS=http://127.0.0.1:8265
"""
SCRIPT = """
if RAY_AUTH_TOKEN= RAY_AUTH_TOKEN_PATH=/dev/null RAY_AUTH_MODE=disabled ray job list >/dev/null 2>&1; then
    echo 'a job could be listed without the token'; exit 3
fi
ray job submit --working-dir . --runtime-env jobs/runtime-env.yaml -- \
    python jobs/extract.py jobs/recipes/quickstart.yaml storage="$SCRATCH/runs" 'languages=[en, sw]'
"""


@pytest.fixture
def ray_folder() -> Iterator[str]:
    """Short: the names of Ray's sockets may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.fixture
def in_namespace(tmp_path: Path, ray_folder: str) -> Callable[[str], str]:
    """Start a head with a token, run a script beside it, and give back what it wrote.

    It works in a copy of the project as it would be sent, which nobody changes meanwhile.
    """
    clone = tmp_path / "clone"
    for name in files_to_send(ROOT):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)

    def run(script: str) -> str:
        process = subprocess.run(
            namespace.command("bash", "-c", HEAD + script),
            cwd=clone,
            env={
                **os.environ,
                "SCRATCH": str(tmp_path),
                "RAY_FOLDER": ray_folder,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(clone / "platform"),
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN": secrets.token_hex(32),
            },
            capture_output=True,
            text=True,
            timeout=1180,
        )
        output = process.stdout + process.stderr
        assert process.returncode == 0, output[-6000:]
        return output

    return run


@pytest.mark.slow  # a minute: a head, an upload and a stage
@pytest.mark.skipif(bool(namespace.available()), reason=namespace.available())
def test_a_job_script_extracts_vectors_on_a_running_cluster(tmp_path: Path, in_namespace: Callable[[str], str]) -> None:
    assert "succeeded" in in_namespace(SCRIPT)
    (vectors,) = (tmp_path / "runs/extract").iterdir()
    assert sorted(p.name for p in (vectors / "vectors").iterdir()) == ["en", "sw"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(bool(namespace.available()), reason=namespace.available())
def test_submit_reattaches_resumes_and_stops(in_namespace: Callable[[str], str]) -> None:
    assert "all is well" in in_namespace(f"python {Path(__file__).parent}/submit_session.py")
