"""The page of a sweep: what it says, and that it says it without a picture too."""

import re

from babelray.sweeping.page import coordinates, sweep_page
from babelray.sweeping.records import Record, Trial
from babelray.sweeping.results import values_before
from babelray.sweeping.space import Range
from support.sweep_data import space, whole_grid


def score(values: dict[str, float], seed: int) -> dict[str, float]:
    turned = values["simulate.turn"] / 90
    return {"p1": 0.9 - 0.5 * turned + 0.01 * seed, "loss": 2 - turned + 0.1 * values["simulate.words"]}


GIVEN = space(
    metrics=[{"name": "p1"}, {"name": "loss", "mode": "min"}],
    seeds=[1, 2],
    paper={"simulate.turn": 30, "simulate.words": 5},
)


def alternatives(page: str) -> list[str]:
    return re.findall(r'<svg[^>]* role="img" aria-label="([^"]+)"', page)


def test_the_page_compares_the_best_with_the_paper() -> None:
    records = whole_grid(GIVEN, score)
    records[-1].state, records[-1].error = "failed", "training <diverged>"
    page = sweep_page(GIVEN, records)
    assert "11 done, 1 failed" in page and "training &lt;diverged&gt;" in page
    assert re.search(r"<td>best</td><td>0</td><td>0</td><td>5</td><td>0.915 ± 0.007071</td>", page)
    assert re.search(r"<td>as in the paper</td><td>2</td><td>30</td><td>5</td>", page)
    assert "p1 +0.1667" in page
    told = alternatives(page)
    assert len(told) == 1 + 2 + 2 + 1 and told[0].startswith(
        "Parallel coordinates of 6 points; the best has turn 0, words 5"
    )
    assert any(text.startswith("p1 by parameter") and "turn: 0 0.915, 30 0.7483, 90 0.41" in text for text in told)
    assert "Importance for p1: turn 0." in page, "it comes first"
    front = next(text for text in told if "the front" in text)
    assert all(f"point {number}:" in front for number in (0, 2, 4)) and "point 1:" not in front
    assert not re.search(r'(src|href)="(?!#)', page), "nothing is fetched"


def test_the_best_point_can_be_the_papers() -> None:
    given = space(paper={"simulate.turn": 0}, seeds=[1])
    assert "The best point is the published one" in sweep_page(given, whole_grid(given, score))
    tried = [record for record in whole_grid(given, score) if record.trial.values["simulate.turn"]]
    assert "The published point was not tried" in sweep_page(given, tried)


def test_a_sweep_of_which_nothing_came() -> None:
    page = sweep_page(GIVEN, [Record(Trial(0, {"simulate.turn": 0, "simulate.words": 5}, 1), "failed", error="lost")])
    assert "1 failed" in page and "lost" in page and "<svg" not in page


def test_where_values_stand() -> None:
    assert coordinates([10, 0.1, 10], Range(values=[0.1, 1, 10])) == ([1.0, 0.0, 1.0], [0.0, 1.0], ["0.1", "10"])
    stand, ticks, labels = coordinates([1e-4, 1e-2], Range(log_uniform=(1e-5, 1)))
    assert stand == [-4.0, -2.0] and labels[0] == "0.0001" and labels[-1] == "0.01" and len(ticks) == 5
    assert coordinates([2.0, 2.0]) == ([2.0, 2.0], [2.0], ["2"])


def test_the_page_shows_the_value_before() -> None:
    metrics = [{"name": "retrieval/after"}, {"name": "bli/p1", "before": "bli_raw/p1"}, {"name": "speed"}]
    given = space(metrics=metrics)
    score = {"retrieval/before": 0.1234, "bli_raw/p1": 0.25, "speed": 1.0, "bli/p1": 0.5}
    records = whole_grid(given, lambda values, seed: score | {"retrieval/after": values["simulate.turn"] / 100})
    assert values_before(given, records) == {"retrieval/after": 0.1234, "bli/p1": 0.25}
    page = sweep_page(given, records)
    assert "<td>before</td>" in page and "<td>0.1234</td>" in page and "Before: 0.25." in page
    changing = whole_grid(
        given, lambda values, seed: score | {"retrieval/after": 1.0, "bli_raw/p1": values["simulate.turn"]}
    )
    assert "bli/p1" not in values_before(given, changing), "there is no one value before"
    assert "<td>before</td>" not in sweep_page(space(), whole_grid(space(), lambda values, seed: {"p1": 0.5}))
