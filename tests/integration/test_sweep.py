"""Sweeps as a user would start them: trainings that are stopped early, and every space that is shipped, made small."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import yaml

from support import command
from support.small_recipe import MLM, small_recipe, write_recipe

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a recipe that has every stage that a space varies; what spaces have in common is made once."""
    folder = tmp_path_factory.mktemp("sweeps")
    table = [f"{row}\t{'ab'[row % 2]}\ta dog {row}\tein Hund {row}" for row in range(24)]
    (folder / "table.tsv").write_text("\n".join(["row\ttopic\ten\tde", *table]) + "\n")
    objectives = [{"kind": "transport", "batch_size": 4}, MLM]
    recipe = small_recipe(
        folder,
        languages=["en", "de"],
        encoder={"path": "babelray-mini"},
        extract={"layer": -1, "min_steps": 5},
        pretrain={
            "steps": 6,
            "log_every": 1,
            "objectives": objectives,
            "validation": {"every": 2, "held_out": 0.1, "words": 20, "sentences": 10, "best": "mlm"},
        },
        expose={"epochs": 1, "batch_size": 64, "limit": 64, "candidates": 50},
        stitch={
            "benchmark": {
                "data": str(folder / "table.tsv"),
                "where": {"row": [12, 23]},
                "train": str(folder / "table.tsv"),
                "train_where": {"row": [0, 11]},
                "table": {"text": "{lang}", "label": "topic"},
                "fine_tuning": {"epochs": 1, "batch_size": 4},
            }
        },
        evaluate={"layer": -1, "benchmarks": ["retrieval", "words", "bli", "perplexity"]},
    )
    write_recipe(folder / "recipe.yaml", recipe)
    return folder


def babelray(*arguments: str) -> str:
    process = command.start(*arguments)
    try:
        output, _ = process.communicate(timeout=1500)
    finally:
        command.kill_all(process)
    assert process.returncode == 0, output
    return output


def records(folder: Path, name: str) -> list[dict[str, object]]:
    (sweep,) = (folder / "runs/sweeps").glob(f"{name}-*")
    assert (sweep / "sweep.html").exists()
    return [json.loads(path.read_text()) for path in sorted((sweep / "trials").glob("*.json"))]


def test_trainings_that_fall_behind_are_stopped(folder: Path) -> None:
    space = {
        "name": "halving",
        "recipe": str(folder / "recipe.yaml"),
        "stage": "pretrain",
        "parameters": {"pretrain.learning_rate": {"values": [3e-4, 1e-9, 1e-10]}},
        "metrics": [{"name": "validation/mlm", "mode": "min"}],
        "seed_key": "pretrain.seed",
        "scheduler": "asha",
        "asha": {"metric": {"name": "validation/mlm", "mode": "min"}, "grace": 4, "factor": 2},
    }
    (folder / "space.yaml").write_text(yaml.safe_dump(space))
    babelray("sweep", str(folder / "space.yaml"))
    found = {record["trial"]["values"]["pretrain.learning_rate"]: record for record in records(folder, "halving")}  # type: ignore[index]
    assert [found[rate]["state"] for rate in (3e-4, 1e-9, 1e-10)] == ["done", "stopped", "stopped"]
    assert [step for step, _ in found[3e-4]["reports"]] == [2, 4, 6]  # type: ignore[union-attr]
    assert [step for step, _ in found[1e-9]["reports"]] == [2, 4], "no step after it was stopped"  # type: ignore[union-attr]
    with sqlite3.connect(folder / "runs/mlflow.db") as database:
        states = dict(database.execute("select name, status from runs").fetchall())
        steps = database.execute(
            "select distinct step from metrics where key = 'validation/mlm' order by step"
        ).fetchall()
    assert states == {
        "halving (sweep)": "FINISHED",
        "point 0, seed 1": "FINISHED",
        "point 1, seed 1": "KILLED",
        "point 2, seed 1": "KILLED",
    }
    assert {2, 4, 6} <= {step for (step,) in steps}, "the curve of every trial can be compared"
    assert "3 of 3 trials (1 done, 2 stopped)" in babelray("sweep", "status", str(folder / "space.yaml"))


@pytest.mark.parametrize("name", ["transport", "exposure", "stitching", "extraction"])
def test_shipped_spaces_run(folder: Path, name: str) -> None:
    small = [f"sweep.recipe={folder}/recipe.yaml", "sweep.trials=2", "sweep.seeds=[1]"]
    output = babelray("sweep", f"tune/spaces/{name}.yaml", *small)
    assert [record["state"] for record in records(folder, name)] == ["done", "done"], output
    if name == "extraction":
        assert len(list((folder / "runs/align").iterdir())) >= len(list((folder / "runs/extract").iterdir())) + 1


def test_the_space_of_simulated_worlds_runs(tmp_path: Path) -> None:
    mapping = "simulate.methods.swept.mapping"
    settings = {"layers": 2, "hidden": 8, "epochs": 1, "critic_hidden": 8, "critic_steps": 1, "bootstrap.iterations": 1}
    small = ["simulate.words=5", "simulate.occurrences=[10]", "simulate.epsilon=[0, 5]", "simulate.runs=1"]
    small += [f"{mapping}.{name}={value}" for name, value in settings.items()]
    output = babelray("sweep", "tune/spaces/density.yaml", *small, f"storage={tmp_path}/runs", "sweep.trials=2")
    assert [record["state"] for record in records(tmp_path, "density")] == ["done", "done"], output
