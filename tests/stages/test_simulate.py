"""The simulate stage: a small grid on Ray, and its parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from rich.console import Console

from babelray.errors import DataError, RecipeError
from babelray.mapping.method import MAPPING_METHODS
from babelray.pipeline import execution as pipeline
from babelray.recipe.load import load_run
from babelray.recipe.simulation import Simulation
from babelray.report.simulation import render
from babelray.simulation.density import DensityWorld
from babelray.stages.simulate import Settings, SimulateStage, Unit, fit, simulate, units
from babelray.storage import Location

GRID = {
    "words": 6,
    "occurrences": [5, 20],
    "t": [1, 3],
    "epsilon": [0.0, 4.0],
    "runs": 3,
    "tested": 5,
    "methods": {
        "rotation": {"mapping": "procrustes"},
        "fcnn": {
            "mapping": {"method": "fcnn", "hidden": 8, "epochs": 2, "select": "last"},
            "t": [3],
            "occurrences": [20],
        },
        "normalisation": {"mapping": "normalisation", "occurrences": [20]},
    },
}


def recipe(folder: Path, **changes: object) -> Simulation:
    text = yaml.safe_dump({"name": "small", "storage": str(folder / "runs"), "simulate": {**GRID, **changes}})
    (folder / "simulation.yaml").write_text(text)
    return load_run(Simulation, folder / "simulation.yaml")


def settings(folder: Path, **changes: object) -> Settings:
    return SimulateStage().settings(recipe(folder, **changes))


def test_a_whole_simulation(local_ray: None, tmp_path: Path) -> None:
    console = Console(record=True, width=120)
    made = pipeline.run(recipe(tmp_path), console, "simulate")["simulate"]
    rows = json.loads((made.location / "scores.json").read_text())
    assert len(rows) == (4 + 1 + 2) * 2 and all(len(row["p1"]) == len(row["word_p1"]) == 3 for row in rows)
    exact = [row for row in rows if row["method"] == "rotation" and row["t"] == 1]
    assert all(row["p1"] == [1.0] * 3 for row in exact), "isomorphic languages are one rotation apart, near and far"
    assert made.metrics["p1/t1/epsilon0/rotation"] == 1
    assert made.metrics["p1/t3/epsilon0/fcnn"] < 0.5
    clouds = json.loads((made.location / "clouds.json").read_text())
    assert {row["method"] for row in clouds} == {"rotation", "fcnn", "normalisation"}
    assert all(row["epsilon"] == 0 and len(row["cloud"][0]) == 6 * 5 for row in clouds)
    assert not (made.location / "work").exists()
    pages = render(made, "small", {})
    assert "| rotation | 100.0 ± 0.0 | 100.0 ± 0.0 |" in pages["simulation.md"] and "<svg" in pages["simulation.html"]
    tables = SimulateStage().summary(made, settings(tmp_path)).tables
    assert ["rotation", "100.0 ± 0.0", "100.0 ± 0.0"] in [row[:3] for row in tables[0].rows] and len(tables) == 3
    assert pipeline.run(recipe(tmp_path), console, "simulate")["simulate"].manifest == made.manifest
    assert "complete" in console.export_text()
    with pytest.raises(RecipeError, match="--force corpus"):
        pipeline.run(recipe(tmp_path), console, "simulate", force="corpus")


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    unit, out = Unit("rotation", 1, 5), Location.parse(tmp_path / "out")
    simulate(settings(tmp_path), unit, out)
    first = unit.scores(out).read_json()
    unit.scores(out).write_json("kept")
    simulate(settings(tmp_path), unit, out)
    assert unit.scores(out).read_json() == "kept"
    simulate(settings(tmp_path), unit, again := Location.parse(tmp_path / "again"))
    assert unit.scores(again).read_json() == first, "the same seed, the same worlds"


def test_a_method_is_tried_where_it_says(tmp_path: Path) -> None:
    found = units(settings(tmp_path).simulate)
    assert [unit for unit in found if unit.method == "fcnn"] == [Unit("fcnn", 3, 20)]
    assert [unit.occurrences for unit in found if unit.method == "normalisation"] == [20, 20]
    assert len([unit for unit in found if unit.method == "rotation"]) == 4


def test_the_order_of_the_target_tells_nothing() -> None:
    text = DensityWorld.make(words=4, seed=1).text(5, 0.0, seed=2)
    source, _ = fit(text, MAPPING_METHODS.parse("normalisation"), seed=1)
    backwards = text._replace(target_N2=text.target_N2.flip(0))
    again, _ = fit(backwards, MAPPING_METHODS.parse("normalisation"), seed=1)
    assert torch.allclose(source.transform(text.source_N2), again.transform(text.source_N2), atol=1e-5)
    rotation = MAPPING_METHODS.parse({"method": "procrustes", "normalise": "none"})
    turned, same = fit(text, rotation, seed=1)
    assert torch.allclose(turned.transform(text.source_N2), same.transform(text.target_N2), atol=1e-4), "but pairs do"


def test_a_fit_that_fails_says_where(tmp_path: Path) -> None:
    methods = {"real-nvp": {"mapping": "real-nvp"}}
    few = settings(tmp_path, words=2, occurrences=[1], methods=methods)
    object.__setattr__(few.simulate, "words", 1)  # a world of one word is refused by the recipe
    with pytest.raises(DataError, match=r"real-nvp, t = 3, k = 1, run 0: "):
        simulate(few, Unit("real-nvp", 3, 1), Location.parse(tmp_path / "out"))


def test_the_command(babelray, tmp_path: Path) -> None:
    recipe(tmp_path)
    process = babelray("simulate", str(tmp_path / "simulation.yaml"), "simulate.runs=1", "--dry-run")
    assert process.returncode == 0 and "to do" in process.stdout and "runs: 1" in process.stdout, process.stderr
    process = babelray("simulate", str(tmp_path / "simulation.yaml"), "simulate.run=1", "--dry-run")
    assert process.returncode == 2 and "did you mean 'runs'" in process.stderr
    process = babelray("simulate", "jobs/recipes/quickstart.yaml")
    assert process.returncode == 2 and "Give it a key `simulate`" in process.stderr
