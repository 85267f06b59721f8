"""The tables and the page of the expose stage, on a grid whose best cells are known."""

from babelray.evaluation.exposure import best_shares, exposure_page, exposure_table, table
from babelray.languages import LANGUAGES

SHARES = {"0": 0.3, "0.5": 0.4, "1": 0.1}


def scores(values: dict[str, float]) -> dict[str, dict[str, float]]:
    return {share: {"p1": value, "words": 50, "coverage": 0.5} for share, value in values.items()}


GRID = {
    "de": {"plain": scores(SHARES), "tuned": scores({"0": 0.3, "0.5": 0.6, "1": 0.2})},
    "sw": {"plain": scores(SHARES), "tuned": scores({"0": 0.3, "0.5": 0.5, "1": 0.7})},
}


def test_the_papers_columns_and_their_means() -> None:
    head, de, sw, mean = table(GRID, 0.5)
    assert head == [
        "",
        "words",
        "covered %",
        "static",
        "plain (λ = 1)",
        "plain (λ = 0.5)",
        "tuned (λ = 1)",
        "tuned (λ = 0.5)",
    ]
    assert de == ["de", "50", "50", "30.0", "10.0", "40.0", "20.0", "**60.0**"]
    assert sw[3:] == ["30.0", "10.0", "40.0", "**70.0**", "50.0"]
    assert mean == ["mean", "", "", "30.0", "10.0", "40.0", "45.0", "**55.0**"]


def test_the_best_share_of_each_language() -> None:
    assert best_shares(GRID)[1:] == [["de", "0.5", "40.0", "0.5", "60.0"], ["sw", "0.5", "40.0", "1", "70.0"]]


def test_a_share_that_was_not_tried_is_not_made_up() -> None:
    assert "–" in exposure_table(GRID, 0.3) and "λ = 0.3" in exposure_table(GRID, 0.3)


def test_the_page_has_a_curve_for_each_language_told_in_words() -> None:
    page = exposure_page("<words>", GRID, 0.5, LANGUAGES)
    assert "&lt;words&gt;" in page and page.count("<svg") == 1 and "Swahili" in page
    assert "de: plain from 30.0 to 10.0, tuned from 30.0 to 20.0, at best 60.0" in page
