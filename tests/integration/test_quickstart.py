"""The quickstart, whole."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
Command = Callable[..., subprocess.CompletedProcess[str]]


def test_alignment_raises_retrieval(babelray: Command, tmp_path: Path) -> None:
    process = babelray("run", "jobs/recipes/quickstart.yaml", f"storage={tmp_path}/runs")
    assert process.returncode == 0, process.stdout + process.stderr
    (folder,) = (tmp_path / "runs/evaluate").iterdir()
    averages = json.loads((folder / "manifest.json").read_text())["metrics"]
    assert averages["retrieval/after"] > averages["retrieval/before"] + 0.03
    assert averages["words/after"] > averages["words/before"] - 0.01
