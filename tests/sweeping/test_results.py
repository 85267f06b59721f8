"""The best point, the Pareto front, and how much each parameter matters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from babelray.errors import RecipeError
from babelray.storage import Location
from babelray.sweeping.importance import importance
from babelray.sweeping.records import Journal, Record, Trial, flatten, metric_value
from babelray.sweeping.results import Point, best_point, completed_points, paper_points, parameter_names, pareto_front
from babelray.sweeping.space import Metric
from support.sweep_data import done, space, whole_grid

TWO = [{"name": "x"}, {"name": "y", "mode": "min"}]


def test_means_and_spreads_over_seeds() -> None:
    given = space(metrics=[{"name": "loss", "mode": "min"}], seeds=[1, 2])
    records = [done(0, {"a": 1}, 1, loss=1.0), done(0, {"a": 1}, 2, loss=3.0), done(1, {"a": 2}, 1, loss=2.5)]
    records.append(Record(Trial(1, {"a": 2}, 2), "failed"))
    found = completed_points(given, records)
    assert [point.mean(given.metrics[0]) for point in found] == [2.0, 2.5]
    assert found[0].spread(given.metrics[0]) == pytest.approx(2**0.5) and found[1].spread(given.metrics[0]) == 0
    assert best_point(given, found) is found[0] and best_point(given, []) is None


@drawn(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_the_front_is_what_nothing_dominates(pairs: list[tuple[int, int]]) -> None:
    given = space(metrics=TWO)
    found = [Point(i, {}, {"x": [float(x)], "y": [float(y)]}) for i, (x, y) in enumerate(pairs)]
    kept = {point.number for point in pareto_front(given, found)}
    for i, (x, y) in enumerate(pairs):
        beaten = any(u >= x and v <= y and (u > x or v < y) for u, v in pairs)
        assert (i in kept) == (not beaten)


def test_what_the_paper_chose() -> None:
    given = space(paper={"simulate.turn": 30})
    found = completed_points(given, whole_grid(given, lambda values, seed: {"p1": 0.5}))
    assert [point.values for point in paper_points(given, found)] == [
        {"simulate.turn": 30, "simulate.words": 5},
        {"simulate.turn": 30, "simulate.words": 6},
    ]
    assert paper_points(space(), found) == []


def test_parameters_with_the_same_last_name_are_called_by_their_paths() -> None:
    parameters = {path: {"values": [1]} for path in ("a.0.weight", "a.1.weight", "rate")}
    assert parameter_names(space(parameters=parameters)) == {
        "a.0.weight": "a.0.weight",
        "a.1.weight": "a.1.weight",
        "rate": "rate",
    }


def test_importance_of_a_known_function() -> None:
    """f = 3a + b + 0 · c on the unit cube: the shares of the variance are 9 : 1 : 0."""
    given = space(
        search="random", trials=400, parameters={name: {"uniform": [0, 1]} for name in "abc"}, metrics=[{"name": "f"}]
    )
    generator = random.Random(0)
    found = []
    for number in range(300):
        values = {name: generator.random() for name in "abc"}
        found.append(Point(number, values, {"f": [3 * values["a"] + values["b"]]}))
    shares = importance(given, found, given.metrics[0])
    assert list(shares) == ["a", "b", "c"] and sum(shares.values()) == pytest.approx(1)
    assert shares["a"] == pytest.approx(0.9, abs=0.04) and shares["b"] == pytest.approx(0.1, abs=0.04)
    assert shares["c"] < 0.01


def test_importance_of_listed_values() -> None:
    given = space(
        parameters={"kind": {"values": ["x", None, [1]]}, "size": {"values": [1, 10]}, "same": {"values": [1]}}
    )
    found = completed_points(given, whole_grid(given, lambda v, seed: {"p1": 1.0 if v["kind"] is None else 0.0}))
    shares = importance(given, found, given.metrics[0])
    assert shares["kind"] > 0.95 and set(shares) == {"kind", "size"}
    assert importance(given, found[:3], given.metrics[0]) == {}, "too few"
    level = completed_points(given, whole_grid(given, lambda v, seed: {"p1": 1.0}))
    assert importance(given, level, given.metrics[0]) == {}, "no variance"


def test_a_figure_that_no_stage_gives() -> None:
    with pytest.raises(RecipeError, match="no stage of the trial has a metric 'retreival/after'") as raised:
        metric_value({"retrieval/after": 1.0, "loss/mlm": 2.0}, Metric(name="retreival/after"))
    assert "retrieval/after" in raised.value.remedy
    assert flatten({"share": 1, "text": "x", "flag": None, "by": {"de": {"p1": 0.5}}}) == {
        "share": 1.0,
        "by/de/p1": 0.5,
    }


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(Location.parse(tmp_path / "sweep"))
    assert journal.read() == {}
    written = [
        Record(Trial(1, {"a.b": 0.1, "c": [{"kind": "mlm"}]}, 1), "stopped", {}, [(10, 0.5)], 3.0),
        Record(Trial(0, {"a.b": 1e-5, "c": None}, 2), "done", {"x/y": 0.25}),
        Record(Trial(0, {"a.b": 1e-5, "c": None}, 1), "failed", error="it broke\n  mend it"),
    ]
    for record in written:
        journal.write(record)
    found = journal.read()
    assert list(found) == [record.trial.key for record in reversed(written)]
    assert [record.trial for record in found.values()] == [record.trial for record in reversed(written)]
    assert found[written[2].trial.key].error == "it broke\n  mend it"
    (tmp_path / "sweep/trials/.x.json.0123abcd").write_text("half")
    assert len(journal.read()) == 3, "what a writer that was killed left does not count"
