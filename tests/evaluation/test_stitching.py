"""The tables and the page of the stitch stage, on scores whose best cells are known."""

import pytest

from babelray.evaluation.stitching import Scores, against_table, language_table, stitching_page, stitching_tables, table
from babelray.languages import LANGUAGES


def scores(de: list[float], zh: list[float], in_hub: list[float]) -> dict[str, dict[str, list[float]]]:
    return {code: {"macro_f1": some, "accuracy": some, "in_hub": in_hub} for code, some in (("de", de), ("zh", zh))}


BY_SYSTEM = {
    "logistic": scores([0.5], [0.6], []),
    "squares": scores([0.2, 0.4], [0.1, 0.1], [0.9, 0.7]),
    "relative": scores([0.6, 0.8], [0.2, 0.4], [0.8, 0.8]),
}
HITS = {
    "logistic": [{"de": [1.0] * 12, "zh": [0.0] * 12}],
    "squares": [{"de": [0.0] * 12, "zh": [0.0] * 12}] * 2,
    "relative": [{"de": [1.0] * 12, "zh": [1.0] * 12}, {"de": [1.0] * 12, "zh": [0.0] * 12}],
}
SCORES = Scores("en", BY_SYSTEM, HITS, "squares")
ABOUT = {
    code: {"words": 1234, "covered": 0.5, "anchors": {"squares": 70, "relative": 70, "confident": 7}}
    for code in ("de", "zh")
}


def test_means_over_seeds_with_the_best_of_each_column_marked() -> None:
    head, logistic, squares, relative = table(SCORES)
    assert head == ["", "mean", "de", "zh", "en"]
    assert logistic == ["logistic", "**55.0**", "50.0", "**60.0**", "–"]
    assert squares == ["squares", "20.0 ± 7.1", "30.0", "10.0", "80.0"]
    assert relative == ["relative", "50.0 ± 14.1", "**70.0**", "30.0", "80.0"]
    assert SCORES.means() == pytest.approx({"logistic": 0.55, "squares": 0.2, "relative": 0.5})


def test_what_is_above_least_squares() -> None:
    """Twelve examples that all favour one system: 2^(1 − 12), twice for the two comparisons."""
    _, logistic, relative = against_table(SCORES)
    assert logistic == ["logistic", "+35.0", "+50.0", "0.001"]
    assert relative == ["relative", "+30.0", "+75.0", "0.001"]
    assert "against" not in stitching_tables(Scores("en", BY_SYSTEM, HITS), ABOUT)


def test_anchors_are_shown_once_for_systems_that_have_the_same() -> None:
    head, german, _ = language_table(ABOUT)
    assert head == ["", "words", "covered %", "anchors: squares", "anchors: confident"]
    assert german == ["de", "1,234", "50", "70", "7"]


def test_the_page_says_it_in_words() -> None:
    page = stitching_page("<topics>", SCORES, ABOUT, LANGUAGES)
    assert "&lt;topics&gt;" in page and page.count("<svg") == 1
    assert "German" in page and "relative 50.0" in page and "Against least squares" in page
