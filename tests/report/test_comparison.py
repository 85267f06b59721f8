from pathlib import Path

import pytest

from babelray.languages import LANGUAGES
from babelray.report.comparison import Comparison, SystemScores, comparison_page, comparison_table, render
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.results import BenchmarkResults
from support.report_data import about

START = "before training"
GROUPS = {
    START: [START],
    "mlm": ["mlm, seed 1", "mlm, seed 2"],
    "transport": ["transport, seed 1", "transport, seed 2"],
}


def scored(de: float, zh: float) -> dict[str, dict[str, float]]:
    return {code: {"mean": v, "to_hub": v, "from_hub": v, "sentences": 9} for code, v in (("de", de), ("zh", zh))}


SCORES = {
    START: scored(0.0, 0.1),
    "mlm, seed 1": scored(0.1, 0.2),
    "mlm, seed 2": scored(0.2, 0.3),
    "transport, seed 1": scored(0.5, 0.5),
    "transport, seed 2": scored(0.5, 0.5),
}
RETRIEVAL = BenchmarkResults("retrieval", about("retrieval"), SCORES)


def board(example_scores: dict[str, list[dict[str, list[float]]]]) -> SystemScores:
    means = {START: [0.1], "mlm": [0.5, 0.7], "transport": [0.6]}
    return SystemScores("topics", "accuracy", True, means, example_scores)


COMPARISON = Comparison(GROUPS, {"retrieval": RETRIEVAL}, {"retrieval": board({START: [{}]})})


def test_means_and_spreads_by_hand() -> None:
    table = comparison_table(COMPARISON)
    assert "| before training | 5.0 |" in table
    assert "| mlm | 20.0 ± 7.1 |" in table
    assert "| transport | 50.0 ± 0.0 |" in table
    assert "| zh | 10.0 | 25.0 ± 7.1 | 50.0 ± 0.0 |" in table
    assert "Word translation" not in table, "benchmarks that were not run are left out"


def test_the_page_shows_every_variant_and_its_source() -> None:
    page = comparison_page("<objectives>", COMPARISON, LANGUAGES, {"mlm, seed 1": "0123456789abcdef"})
    assert "&lt;objectives&gt;" in page and "<svg" in page and "0123456789abcdef" in page
    assert "German" in page and "50.0 ± 0.0" in page and "2 ways of training, 2 seeds each" in page


def test_a_board_ranks_systems_and_marks_those_that_may_be_as_good() -> None:
    rows = 40
    example_scores = {
        START: [{"de": [0.0] * rows}],
        "mlm": [{"de": [1.0] * rows}, {"de": [1.0] * 39 + [0.0]}],
        "transport": [{"de": [1.0] * 38 + [0.0] * 2}],
    }
    head, first, second, last = board(example_scores).board()
    assert head == ["", "accuracy", "examples right", "p"]
    assert first == ["mlm ●", "60.0 ± 14.1", "98.8", ""]
    assert second[:3] == ["transport ●", "60.0", "95.0"] and float(second[3]) > 0.05
    assert last == [START, "10.0", "0.0", "< 0.001"]


def test_a_benchmark_without_example_scores_has_means_only() -> None:
    table = board({START: [{}], "mlm": [{}, {}], "transport": [{}]}).board()
    assert table == [["", "accuracy"], [START, "10.0"], ["mlm", "60.0 ± 14.1"], ["transport", "60.0"]]


def test_pages_are_drawn_from_the_artifact_alone(tmp_path: Path) -> None:
    location = Location.parse(tmp_path)
    (location / "systems.json").write_json(GROUPS)
    (location / "benchmarks.json").write_json({"retrieval": {"systems": list(SCORES), "p": {}}})
    for system, scores in SCORES.items():
        right = {code: {"example_scores": [1, 0, 1] if system == START else [1, 1, 1]} for code in scores}
        (location / "predictions" / f"retrieval-{system}.json").write_json(right)
        result = {"meta": about("retrieval"), "scores": scores, "figures": {}}
        (location / "results" / f"retrieval-{system}.json").write_json(result)
    inputs = {"encoder": {"fingerprint": "0123456789abcdef", "location": "somewhere"}}
    pages = render(Artifact(location, {"inputs": inputs}), "objectives", LANGUAGES)
    assert list(pages) == ["comparison.html", "comparison.md"]
    assert "0123456789abcdef" in pages["comparison.html"] and "Sentence retrieval" in pages["comparison.html"]
    assert "| mlm ● | 20.0 ± 7.1 | 100.0 |" in pages["comparison.md"] and "not significantly" in pages["comparison.md"]


@pytest.mark.parametrize("lead", ["± is the standard deviation"])
def test_the_page_explains_its_spreads(lead: str) -> None:
    assert lead in comparison_page("x", COMPARISON, LANGUAGES, {})
