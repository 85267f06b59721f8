"""Sweeps of trials that take no time, on a real cluster: what is kept, what is tracked, what is left behind."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from babelray.errors import BabelrayError, RecipeError, StorageError
from babelray.recipe.load import load_run
from babelray.recipe.simulation import Simulation
from babelray.storage import Location
from babelray.sweeping.records import Journal, Record
from babelray.sweeping.run import run_sweep, shared_steps, show_plan, show_status
from babelray.sweeping.space import load_sweep
from babelray.sweeping.trial import Locks
from support.sweep_data import space_file

pytestmark = pytest.mark.usefixtures("local_ray")


def run(space: Path, *overrides: str) -> tuple[Location, str]:
    said = io.StringIO()
    return run_sweep(load_sweep(space, overrides), Console(file=said, width=300)), said.getvalue()


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / "runs/mlflow.db") as database:
        return database.execute(query).fetchall()


def children(folder: Path) -> dict[str, str]:
    """The status of every run that has a parent, by name; they all have the same one."""
    below = "tags.key = 'mlflow.parentRunId'"
    found = rows(
        folder, f"select runs.name, runs.status, tags.value from runs join tags using (run_uuid) where {below}"
    )
    assert len({parent for _, _, parent in found}) == 1 and len({name for name, _, _ in found}) == len(found)
    return {str(name): str(status) for name, status, _ in found}


def records(location: Location) -> list[Record]:
    return list(Journal(location).read().values())


def test_who_has_lost_the_lock_leaves_the_others_sweep_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def lost(location: Location) -> Iterator[Callable[[], None]]:
        def check() -> None:
            raise StorageError("another run has taken over")

        yield check

    monkeypatch.setattr("babelray.sweeping.run.exclusive_lock", lost)
    with pytest.raises(StorageError, match="taken over"):
        run(space_file(tmp_path, parameters={"simulate.turn": {"values": [0.0]}}, paper={}))
    (location,) = (tmp_path / "runs/sweeps").iterdir()
    assert (location / "tune").exists() and not (location / "sweep.html").exists()


def test_a_grid_is_run_tracked_and_concluded_and_nothing_is_done_twice(tmp_path: Path) -> None:
    parameters = {"simulate.turn": {"values": [0.0, 180.0]}, "simulate.t.0": {"values": [1, 5]}}
    space = space_file(tmp_path, parameters=parameters, paper={}, seeds=[1, 2])
    location, said = run(space)
    found = records(location)
    assert len(found) == 8 and all(record.state == "done" for record in found)
    assert "8 of 8 trials (8 done); best so far: p1/mean 1" in said
    assert children(tmp_path) == {f"point {n}, seed {s}": "FINISHED" for n in range(4) for s in (1, 2)}
    assert rows(tmp_path, "select count(*) from runs where status != 'FINISHED'") == [(0,)]
    angles = rows(tmp_path, "select distinct value from params where key = 'simulate.turn' order by value")
    assert {value for (value,) in angles} >= {"0.0", "180.0"}
    measured = rows(tmp_path, "select count(distinct run_uuid) from latest_metrics where key = 'p1/mean'")
    assert measured == [(8,)], "the figure that counts is comparable in all"
    assert {"sweep.html", "best.yaml"} <= {p.name for p in (tmp_path / "runs/mlflow-artifacts").rglob("*")}

    best = load_run(Simulation, str((location / "best.yaml").path))
    means: dict[tuple[float, int], list[float]] = {}
    for record in found:
        turn, t = record.trial.values.values()
        means.setdefault((turn, t), []).append(record.metrics[f"p1/t{t}/epsilon0/rotation"])
    assert sum(means[best.simulate.turn, best.simulate.t[0]]) == max(map(sum, means.values()))
    assert not (location / "tune").exists()

    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs/simulate").rglob("manifest.json")}
    assert len(made) == 8
    _, said = run(space)
    assert "all trials are done, nothing to do" in said
    location, said = run(space, "sweep.name=again")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "runs/simulate").rglob("manifest.json")} == made
    assert "trivial" not in location.name and len(records(location)) == 8


def test_a_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    """As after `kill -9`: one trial was running, one had failed, some had not begun."""
    space = space_file(tmp_path, search="optuna", trials=4)
    location, _ = run(space, "sweep.trials=3")
    first, second, third = records(location)
    Journal(location).write(Record(second.trial, "running"))
    Journal(location).write(Record(third.trial, "failed", error="lost"))
    with sqlite3.connect(tmp_path / "runs/mlflow.db") as database:
        database.execute("update runs set status = 'RUNNING' where name = ?", (f"point {second.trial.point}, seed 1",))
    began = (Journal(location).location / f"{first.trial.key}.json").path.stat().st_mtime_ns
    again, said = run(space)
    assert again == location and "done: " in said
    assert [r.trial.key for r in records(location)][:3] == [r.trial.key for r in (first, second, third)]
    assert [r.state for r in records(location)] == ["done"] * 4
    assert (Journal(location).location / f"{first.trial.key}.json").path.stat().st_mtime_ns == began
    assert children(tmp_path) == {f"point {n}, seed 1": "FINISHED" for n in range(4)}
    assert rows(tmp_path, "select count(*) from runs") == [(5,)]


def test_a_trial_that_fails_does_not_stop_the_sweep(tmp_path: Path) -> None:
    """What each parameter allows by itself, but not both together, is found out when it is tried."""
    method = "simulate.methods.rotation.mapping"
    parameters = {f"{method}.method": {"values": ["rcsls", "procrustes"]}, f"{method}.normalise": {"values": ["none"]}}
    location, said = run(space_file(tmp_path, parameters=parameters, paper={}, change={f"{method}.normalise": "unit"}))
    bad, good = records(location)
    assert (bad.state, good.state) == ("failed", "done") and "normalise" in bad.error
    assert "failed: method rcsls, normalise none, seed 1" in said and "2 of 2 trials (1 done, 1 failed)" in said
    assert children(tmp_path) == {"point 0, seed 1": "FAILED", "point 1, seed 1": "FINISHED"}
    (error,) = (tmp_path / "runs/mlflow-artifacts").rglob("error.txt")
    assert error.read_text() == bad.error
    assert "normalise" in (location / "sweep.html").read_text()


def test_a_figure_that_no_trial_has_ends_the_sweep_at_once(tmp_path: Path) -> None:
    space = space_file(tmp_path, metrics=[{"name": "p2/t1/epsilon0/rotation"}])
    with pytest.raises(RecipeError, match="no stage of the trial has a metric 'p2/t1/epsilon0/rotation'"):
        run(space)
    (folder,) = (tmp_path / "runs/sweeps").iterdir()
    assert len(list((folder / "trials").iterdir())) <= 2
    assert rows(tmp_path, "select count(*) from runs where status = 'RUNNING'") == [(0,)]


def test_a_space_with_fewer_points_than_trials(tmp_path: Path) -> None:
    space = space_file(tmp_path, search="random", trials=9, parameters={"simulate.t.0": {"values": [1, 5]}}, paper={})
    for _ in range(2):
        location, _ = run(space)
        assert [record.state for record in records(location)] == ["done", "done"] and (location / "sweep.html").exists()
    assert children(tmp_path) == {f"point {n}, seed 1": "FINISHED" for n in range(2)}


def test_status_and_plan(tmp_path: Path) -> None:
    sweep = load_sweep(space_file(tmp_path))
    said = io.StringIO()
    console = Console(file=said, width=200)
    with pytest.raises(BabelrayError, match="has not begun"):
        show_status(sweep, console)
    show_plan(sweep, console)
    assert "6 points x 1 seeds, 6 trials to do" in said.getvalue() and "in each trial: simulate" in said.getvalue()
    location, _ = run(tmp_path / "space.yaml", "sweep.trials=2")
    show_status(load_sweep(tmp_path / "space.yaml"), console)
    assert "2 of 6 trials (2 done)" in said.getvalue() and "best.yaml" in said.getvalue()
    assert yaml.safe_load((location / "best.yaml").read_text())["name"] == "trivial-best"
    assert json.loads(next((Journal(location).location.path).iterdir()).read_text())["state"] == "done"


def test_only_one_trial_at_a_time_makes_an_artifact() -> None:
    locks = Locks()
    assert locks.take("location", "first") and locks.take("location", "first"), "also after its process was lost"
    assert not locks.take("location", "second") and locks.take("elsewhere", "second")
    locks.release("first")
    assert locks.take("location", "second") and not locks.take("location", "first")


def test_a_sweep_is_checked_before_its_first_trial(recipe_file, tmp_path: Path) -> None:
    space = {
        "name": "layers",
        "recipe": str(recipe_file()),
        "stage": "extract",
        "parameters": {"extract.layer": {"values": [-1, 1, 9]}},
        "metrics": [{"name": "vectors"}],
    }
    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump(space))
    sweep = load_sweep(path)
    for attempt in (run_sweep, show_plan):
        with pytest.raises(RecipeError, match=r"extract\.layer: the encoder has 2 layers, there is no layer 9"):
            attempt(sweep, Console(quiet=True))
    assert not (tmp_path / "runs").exists()


def test_what_no_parameter_changes_is_shared(recipe_file, tmp_path: Path) -> None:
    def once(seed_key: str, **parameters: list[object]) -> list[str]:
        given = {path.replace("_", ".", 1): {"values": values} for path, values in parameters.items()}
        changes = {
            "recipe": str(recipe_file()),
            "stage": "evaluate",
            "paper": {},
            "seed_key": seed_key,
            "seeds": [1, 2],
        }
        sweep = load_sweep(space_file(tmp_path, parameters=given, **changes))
        return [step.stage.name for step in shared_steps(sweep, sweep.plan(sweep.recipe))]

    before = ["corpus", "encoder", "extract", "align"]
    assert once("pretrain.seed", pretrain_steps=[4, 5]) == before
    assert once("pretrain.seed", extract_layer=[-1, 1]) == before[:2]
    assert once("pretrain.seed", align_mapping=["procrustes", "vecmap"], evaluate_layer=[-1, 1]) == before[:3]
    assert once("seed", pretrain_steps=[4]) == []
