"""The compare stage: every run of every variant is a system."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from babelray.pipeline.stage import Job, run_name
from babelray.recipe.evaluate import EvaluateConfig
from babelray.stages import evaluate
from babelray.stages.compare import CompareStage, ComparisonSettings
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.results import read_results
from support.toy_benchmark import toy_benchmark


def test_variants_and_seeds_are_scored_and_averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_here(tasks: Any, progress: Any, unit: str) -> dict[str, Any]:
        return {task.name: task.function(*task.arguments) for task in tasks}

    monkeypatch.setattr(evaluate, "run_tasks", run_here)
    locations = {"corpus": "corpus", "encoder": "start"}
    locations |= {run_name("mlm", 1): "pretrain", run_name("mlm", 2): "other"}
    inputs = {name: Artifact(Location.parse(tmp_path / folder), {}) for name, folder in locations.items()}
    out, progress = Location.parse(tmp_path / "out"), SimpleNamespace(update=lambda *about: None)
    with toy_benchmark():
        benchmarks = EvaluateConfig(benchmarks=["toy", "bli"]).completed()
        settings = ComparisonSettings(
            languages=["en", "de"], hub="en", seed=1, benchmarks=benchmarks, variants=["mlm"], seeds=[1, 2]
        )
        metrics = CompareStage().run(Job(settings, inputs, out, progress, lambda *about: None, print))
        assert metrics == {"toy/before": 0.5, "toy/mlm": 0.625}, "encoders have no static vectors for bli"
        assert list(read_results(out)["toy"].scores) == ["before training", "mlm, seed 1", "mlm, seed 2"]
        assert (out / "systems.json").read_json() == {
            "before training": ["before training"],
            "mlm": ["mlm, seed 1", "mlm, seed 2"],
        }
        (table,) = CompareStage().summary(Artifact(out, {}), settings).tables
    assert [column.title for column in table.columns] == ["", "toy %", "±"]
    assert table.rows == [["before training", 0.5, None], ["mlm", 0.625, pytest.approx(0.1768, abs=1e-4)]]
