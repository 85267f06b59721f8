"""The quickstart, whole; and every ZeRO stage."""

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
    assert averages["retrieval/after"] > averages["retrieval/before"] + 0.1
    assert averages["words/after"] > averages["words/before"]


def test_every_zero_stage_gives_the_same_losses(babelray: Command, recipe_file, tmp_path: Path) -> None:
    curves = {}
    for stage in (0, 1, 2, 3):
        arguments = [str(recipe_file()), "languages=[en, de]", f"pretrain.zero_stage={stage}", "pretrain.log_every=1"]
        process = babelray("pretrain", *arguments)
        assert process.returncode == 0, process.stdout + process.stderr
        folder = max((tmp_path / "runs/pretrain").iterdir(), key=lambda path: path.stat().st_mtime)
        rows = json.loads((folder / "curves.json").read_text())
        curves[stage] = [row["values"]["loss/mlm"] for row in rows]
        assert (folder / "encoder/model.safetensors").stat().st_size > 100_000
    for stage in (1, 2, 3):
        assert curves[stage] == pytest.approx(curves[0], abs=1e-4)
