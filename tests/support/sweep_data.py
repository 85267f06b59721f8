"""A space and records of trials, without running any; and a recipe whose trials take no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from babelray.sweeping.records import Record, Trial
from babelray.sweeping.search import grid
from babelray.sweeping.space import Space


def space(**changes: Any) -> Space:
    whole = {
        "name": "small",
        "recipe": "recipe.yaml",
        "parameters": {"simulate.turn": {"values": [0, 30, 90]}, "simulate.words": {"values": [5, 6]}},
        "metrics": [{"name": "p1"}],
    }
    return Space.model_validate(whole | changes)


def done(point: int, values: dict[str, Any], seed: int = 1, **metrics: float) -> Record:
    return Record(Trial(point, values, seed), "done", metrics, seconds=1.0)


def whole_grid(given: Space, score: Any) -> list[Record]:
    """All trials of a grid, done; `score`: metrics from values and seed."""
    return [
        done(number, values, seed, **score(values, seed))
        for number, values in enumerate(grid(given))
        for seed in given.seeds
    ]


def simulation(folder: Path) -> Path:
    """A recipe that is done in a moment."""
    simulate = {
        "words": 5,
        "occurrences": [5],
        "t": [1],
        "epsilon": [0.0],
        "runs": 1,
        "methods": {"rotation": {"mapping": {"method": "procrustes", "normalise": "none"}}},
    }
    path = folder / "simulation.yaml"
    path.write_text(yaml.safe_dump({"name": "worlds", "storage": str(folder / "runs"), "simulate": simulate}))
    return path


def space_file(folder: Path, **changes: Any) -> Path:
    """A space of trivial trials: worlds of several angles and sizes."""
    whole = {
        "name": "trivial",
        "recipe": str(simulation(folder)),
        "stage": "simulate",
        "parameters": {"simulate.turn": {"values": [0.0, 30.0, 180.0]}, "simulate.t.0": {"values": [1, 5]}},
        "paper": {"simulate.turn": 30.0},
        "metrics": [{"name": "p1/*"}],
    }
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(whole | changes, sort_keys=False))
    return path
