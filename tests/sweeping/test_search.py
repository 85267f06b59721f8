"""Which trials are given out, and that a search goes on as if it had not been interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from babelray.sweeping.records import Record, Trial
from babelray.sweeping.search import Search, grid
from babelray.sweeping.space import Space
from support.sweep_data import done, space

RANGES = {"a": {"log_uniform": [1e-4, 1.0]}, "b": {"integers": [1, 9]}, "c": {"values": [[1], {"kind": "x"}, None]}}


def all_of(search: Search) -> list[Trial]:
    return list(iter(search.next, None))


def record(trial: Trial, **metrics: float) -> Record:
    return Record(trial, "done", metrics)


def test_a_grid_has_every_combination_with_every_seed_once() -> None:
    given = space(seeds=[1, 2])
    trials = all_of(Search(given))
    assert len(trials) == len({trial.key for trial in trials}) == 12
    assert [trial.values for trial in trials[::2]] == list(grid(given))
    assert [trial.seed for trial in trials[:4]] == [1, 2, 1, 2] and [trial.point for trial in trials[:4]] == [
        0,
        0,
        1,
        1,
    ]


@pytest.mark.parametrize("search", ["grid", "random", "optuna"])
def test_what_is_done_is_kept_and_all_else_is_given_out_again(search: str) -> None:
    given = space(search=search, trials=6, seeds=[1, 2])
    first = Search(given)
    started: list[Record] = []
    for _ in range(5):
        trial = first.next()
        assert trial is not None
        started.append(record(trial, p1=0.1 * trial.point))
        first.finished(started[-1])
    started[1].state = "running"
    started[3].state = "failed"
    again = Search(given, started)
    assert again.remaining == 12 - 3
    trials = all_of(again)
    kept = [r.trial.key for r in started if r.state == "done"]
    assert not {trial.key for trial in trials} & set(kept)
    assert len({trial.key for trial in trials} | set(kept)) == 12
    assert [trial.key for trial in trials[:2]] == [started[1].trial.key, started[3].trial.key]
    assert len({(trial.point, str(trial.values)) for trial in trials}) == len({trial.point for trial in trials})


def test_random_points_do_not_depend_on_interruptions() -> None:
    given = space(search="random", trials=8, parameters=RANGES)
    whole = all_of(Search(given))
    part = [record(trial) for trial in whole[:3]]
    del part[1]  # it was given out, but had not begun
    assert [trial.key for trial in all_of(Search(given, part))] == [whole[1].key, *(t.key for t in whole[3:])]
    assert all_of(Search(space(search="random", trials=8, parameters=RANGES, search_seed=2)))[0] != whole[0]
    assert [trial.key for trial in all_of(Search(space(search="random", trials=9, parameters=RANGES)))[:8]] == [
        trial.key for trial in whole
    ], "more can be asked for later"


@pytest.mark.parametrize("search", ["random", "optuna"])
def test_an_exhausted_space_ends_the_search(search: str) -> None:
    given = space(search=search, trials=50)
    found = Search(given)
    trials = all_of(found)
    assert {str(trial.values) for trial in trials} <= {str(values) for values in grid(given)}
    assert len(trials) == len({trial.key for trial in trials}) and 5 <= len(trials) <= 6


@pytest.mark.parametrize("search", ["random", "optuna"])
def test_what_the_paper_chose_is_tried_first(search: str) -> None:
    given = space(search=search, trials=3, parameters=RANGES, paper={"a": 0.5, "b": 3, "c": {"kind": "x"}})
    assert all_of(Search(given))[0].values == given.paper
    part = space(search=search, trials=3, parameters=RANGES, paper={"b": 3})
    assert all_of(Search(part))[0].values != part.paper


def minimise(given: Space, interrupted: bool) -> list[float]:
    """All values of a search for the least (log a)² + b², which may be made anew after every trial."""
    search, records = Search(given), []
    values: list[float] = []
    while (trial := search.next()) is not None:
        import math

        values.append(math.log(trial.values["a"]) ** 2 + trial.values["b"] ** 2)
        records.append(record(trial, loss=values[-1]))
        search.finished(records[-1])
        if interrupted:
            search = Search(given, records)
    return values


def test_tpe_learns_from_what_was_done_also_before_an_interruption() -> None:
    changes: dict[str, Any] = {
        "trials": 40,
        "parameters": {"a": {"log_uniform": [1e-4, 1e4]}, "b": {"uniform": [-9, 9]}},
    }
    given = space(search="optuna", metrics=[{"name": "loss", "mode": "min"}], **changes)
    for interrupted in (False, True):
        values = minimise(given, interrupted)
        assert len(values) == 40
        assert sum(values[-15:]) / 15 < 0.5 * sum(values[:10]) / 10


def test_tpe_takes_several_metrics_failures_and_stopped_trials() -> None:
    given = space(search="optuna", trials=20, parameters=RANGES, metrics=[{"name": "x"}, {"name": "y", "mode": "min"}])
    search = Search(given)
    for number in range(20):
        trial = search.next()
        assert trial is not None
        outcome = record(trial, x=trial.values["a"], y=trial.values["b"])
        outcome.state = ("done", "failed", "stopped")[number % 3]  # type: ignore[assignment]
        search.finished(outcome)
    assert search.next() is None
    alone = space(search="optuna", trials=15, parameters=RANGES, metrics=[{"name": "loss", "mode": "min"}])
    search = Search(alone)
    for number in range(15):
        trial = search.next()
        assert trial is not None
        outcome = record(trial, loss=trial.values["a"])
        if number % 2:
            outcome.state, outcome.reports = "stopped", [(10, 0.5), (30, 0.4)]
        search.finished(outcome)
    study = search._optuna.study  # type: ignore[union-attr]
    assert sorted({str(trial.state.name) for trial in study.trials}) == ["COMPLETE", "PRUNED"]
    assert study.trials[1].value == -0.4, "retrieval is to be high, the loss low"


def test_records_of_other_seeds_and_of_points_beyond_the_last_do_not_count() -> None:
    values = list(grid(space()))
    records = [done(0, values[0], seed=9, p1=1.0), done(5, values[5], p1=1.0)]
    assert Search(space(trials=5), records).remaining == 5
    assert Search(space(), records).remaining == 5
