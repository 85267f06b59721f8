from babelray.simulation.outcome import Outcome
from babelray.simulation.tables import claims, correlation_table, precisions, verdict
from support.simulated_outcome import outcome


def test_means_spreads_and_what_was_not_tried() -> None:
    result = outcome()
    head, rotation, flow = precisions(result)
    assert head == ["", "t = 1, ε = 0", "t = 1, ε = 5", "t = 5, ε = 0", "t = 5, ε = 5"]
    assert rotation == ["rotation", "100.0 ± 0.0", "100.0 ± 0.0", "50.0 ± 0.0", "50.0 ± 0.0"]
    assert flow == ["real-nvp", "65.0 ± 7.1", "15.0 ± 7.1", "65.0 ± 7.1", "15.0 ± 7.1"]
    less = Outcome({cell: p1 for cell, p1 in result.p1.items() if cell[:2] != ("real-nvp", 1)}, {})
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


def test_a_difference_within_the_noise_decides_nothing() -> None:
    assert verdict([0.1, 0.12, 0.09]) == "yes"
    assert verdict([-0.1, -0.12, -0.09]) == "no"
    assert verdict([0.3, -0.2, 0.1, -0.1]) == verdict([0.0, 0.0]) == "undecided"
    assert verdict([0.1]) == "yes"
