from types import SimpleNamespace

import pytest

from babelray.evaluation.comparison import START, Scores, TaskScores, comparison_page, comparison_table, summary
from babelray.languages import LANGUAGES


def scored(de: float, zh: float) -> dict[str, dict[str, dict[str, float]]]:
    rows = {code: {"mean": v, "to_hub": v, "from_hub": v, "sentences": 9} for code, v in (("de", de), ("zh", zh))}
    return {"retrieval": rows, "words": {}}


SCORES = Scores(scored(0.0, 0.1), {"mlm": [scored(0.1, 0.2), scored(0.2, 0.3)], "transport": [scored(0.5, 0.5)] * 2})


def test_means_and_spreads_by_hand() -> None:
    table = comparison_table(SCORES)
    assert "| before training | 5.0 | 5.0 | 5.0 |" in table
    assert "| mlm | 20.0 ± 7.1 | 20.0 ± 7.1 | 20.0 ± 7.1 |" in table
    assert "| transport | 50.0 ± 0.0 |" in table
    assert "| zh | 10.0 | 25.0 ± 7.1 | 50.0 ± 0.0 |" in table
    assert "words P@1" not in table, "what was not measured is not shown"
    assert summary(SCORES)["retrieval/mlm"] == 0.2 and summary(SCORES)["retrieval/before"] == 0.05


def test_the_page_shows_every_variant_and_where_it_comes_from() -> None:
    inputs = {"mlm, seed 1": SimpleNamespace(manifest={"fingerprint": "0123456789abcdef"})}
    page = comparison_page("<objectives>", SCORES, LANGUAGES, inputs)
    assert "&lt;objectives&gt;" in page and "<svg" in page and "0123456789abcdef" in page
    assert "German" in page and "50.0 ± 0.0" in page


def task(hits: dict[str, list[dict[str, list[float]]]]) -> TaskScores:
    means = {START: [0.1], "mlm": [0.5, 0.7], "transport": [0.6]}
    return TaskScores("topics", "accuracy", True, means, hits)


def test_a_board_ranks_systems_and_marks_those_that_may_be_as_good() -> None:
    rows = 40
    hits = {
        START: [{"de": [0.0] * rows}],
        "mlm": [{"de": [1.0] * rows}, {"de": [1.0] * 39 + [0.0]}],
        "transport": [{"de": [1.0] * 38 + [0.0] * 2}],
    }
    head, first, second, last = task(hits).board()
    assert head == ["", "accuracy", "examples right", "p"]
    assert first == ["mlm ●", "60.0 ± 14.1", "98.8", ""]
    assert second[:3] == ["transport ●", "60.0", "95.0"] and float(second[3]) > 0.05
    assert last == [START, "10.0", "0.0", "< 0.001"]


def test_a_task_without_answers_has_means_only() -> None:
    board = task({START: [{}], "mlm": [{}, {}], "transport": [{}]}).board()
    assert board == [["", "accuracy"], [START, "10.0"], ["mlm", "60.0 ± 14.1"], ["transport", "60.0"]]


def test_listed_tasks_stand_in_the_table_the_page_and_the_summary() -> None:
    scores = Scores(SCORES.start, SCORES.variants, [task({START: [{}], "mlm": [{}], "transport": [{}]})])
    assert "## topics" in comparison_table(scores) and "topics" in comparison_page("x", scores, LANGUAGES, {})
    found = summary(scores)
    assert found["topics/before"] == 0.1 and found["topics/mlm"] == pytest.approx(0.6)
