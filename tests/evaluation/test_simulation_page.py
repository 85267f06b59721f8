import pytest

from babelray.evaluation.simulation_page import (
    Cell,
    Outcome,
    claims,
    correlation_table,
    precisions,
    simulation_page,
    simulation_table,
    verdict,
)


def outcome() -> Outcome:
    """Two methods in two kinds of world: one rises with k and falls with ε, the other never changes."""
    p1: dict[Cell, list[float]] = {}
    for t in (1, 5):
        for k in (5, 20, 100):
            for epsilon in (0.0, 1.0, 5.0):
                p1[Cell("rotation", t, k, epsilon)] = [1.0, 1.0] if t == 1 else [0.5, 0.5]
                near = 0.5 + k / 1000
                p1[Cell("real-nvp", t, k, epsilon)] = [near - epsilon / 10, near + 0.1 - epsilon / 10]
    cloud = [[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.1], [1.0, 0.9]]
    return Outcome(p1, {Cell(m, 5, 100, 0.0): cloud for m in ("rotation", "real-nvp")})


def test_means_spreads_and_what_was_not_tried() -> None:
    found = outcome()
    head, rotation, flow = precisions(found)
    assert head == ["", "t = 1, ε = 0", "t = 1, ε = 5", "t = 5, ε = 0", "t = 5, ε = 5"]
    assert rotation == ["rotation", "100.0 ± 0.0", "100.0 ± 0.0", "50.0 ± 0.0", "50.0 ± 0.0"]
    assert flow == ["real-nvp", "65.0 ± 7.1", "15.0 ± 7.1", "65.0 ± 7.1", "15.0 ± 7.1"]
    less = Outcome({cell: p1 for cell, p1 in found.p1.items() if cell[:2] != ("real-nvp", 1)}, {})
    assert precisions(less)[2][:3] == ["real-nvp", "–", "–"]


def test_correlations_are_those_of_each_run() -> None:
    head, rotation, flow = correlation_table(outcome())
    assert head == ["", "k, t = 1", "k, t = 5", "ε, t = 1", "ε, t = 5"]
    assert rotation[1:] == ["–"] * 4, "what never changes correlates with nothing"
    assert flow[1:] == ["+1.00 ± 0.00", "+1.00 ± 0.00", "−1.00 ± 0.00", "−1.00 ± 0.00"]


def test_what_the_paper_claims_is_checked_where_it_can_be() -> None:
    lines = claims(outcome())
    assert lines[1] == ["t = 1, ε = 0", "rotation", "100.0 ± 0.0", "real-nvp", "65.0 ± 7.1", "yes (2 of 2)"]
    assert lines[2] == ["t = 5, ε = 0", "real-nvp", "65.0 ± 7.1", "rotation", "50.0 ± 0.0", "yes (2 of 2)"]
    assert lines[3][:2] == ["t = 5, ε = 5", "rotation"] and lines[3][-1] == "yes (2 of 2)" and len(lines) == 4
    swapped = {cell: [1 - p for p in p1] for cell, p1 in outcome().p1.items()}
    assert claims(Outcome(swapped, {}))[1][-1] == "no (0 of 2)"


def test_the_page_has_all_figures() -> None:
    page = simulation_page("<worlds>", outcome())
    assert "&lt;worlds&gt;" in page and page.count("<svg") == 7 and "2 worlds of each kind" in page
    for told in ("for t = 1, 2, 3", "rotation 50.0; real-nvp 60.0", "t = 5, real-nvp from 65.0 to 15.0"):
        assert told in page
    assert simulation_table(outcome()).count("## ") == 3


@pytest.mark.parametrize("one", [("occurrences", 5), ("epsilon", 1.0)])
def test_a_grid_of_one_value(one: tuple[str, float]) -> None:
    name, value = one
    few = {cell: p1 for cell, p1 in outcome().p1.items() if getattr(cell, name) == value}
    page = simulation_page("small", Outcome(few, {}))
    assert page.count("<svg") == 5, "no curve of one value, and no cloud"


def test_a_difference_within_the_noise_decides_nothing() -> None:
    assert verdict([0.1, 0.12, 0.09]) == "yes"
    assert verdict([-0.1, -0.12, -0.09]) == "no"
    assert verdict([0.3, -0.2, 0.1, -0.1]) == verdict([0.0, 0.0]) == "undecided"
    assert verdict([0.1]) == "yes"
