"""The tables and the page of the expose stage, on a grid whose best cells are known."""

from pathlib import Path

from babelray.languages import LANGUAGES
from babelray.report.exposure import best_lambdas, html_page, markdown_tables, render, table
from babelray.storage import Location
from babelray.storage.artifact import Artifact

PLAIN = {"0": 0.3, "0.5": 0.4, "1": 0.1}


def scores(values: dict[str, float]) -> dict[str, dict[str, float]]:
    return {lambda_: {"p1": value, "words": 50, "coverage": 0.5} for lambda_, value in values.items()}


GRID = {
    "de": {"plain": scores(PLAIN), "tuned": scores({"0": 0.3, "0.5": 0.6, "1": 0.2})},
    "sw": {"plain": scores(PLAIN), "tuned": scores({"0": 0.3, "0.5": 0.5, "1": 0.7})},
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


def test_the_best_lambda_of_each_language() -> None:
    assert best_lambdas(GRID)[1:] == [["de", "0.5", "40.0", "0.5", "60.0"], ["sw", "0.5", "40.0", "1", "70.0"]]


def test_a_lambda_that_was_not_scored_is_a_dash() -> None:
    assert "–" in markdown_tables(GRID, 0.3) and "λ = 0.3" in markdown_tables(GRID, 0.3)


def test_the_page_has_a_curve_for_each_language_with_a_description() -> None:
    page = html_page("<words>", GRID, 0.5, LANGUAGES)
    assert "&lt;words&gt;" in page and page.count("<svg") == 1 and "Swahili" in page
    assert "de: plain from 30.0 to 10.0, tuned from 30.0 to 20.0, at best 60.0" in page


def test_the_page_is_rendered_from_the_artifact(tmp_path: Path) -> None:
    folder = Location.parse(tmp_path)
    (folder / "grid.json").write_json(GRID)
    artifact = Artifact(folder, {"metrics": {"lambda": 0.5}})
    pages = render(artifact, "words", LANGUAGES)
    assert pages["exposure.md"] == markdown_tables(GRID, 0.5) and "Word similarity" not in pages["exposure.html"]
    similarity = {"de": {v: {"0.5": {"spearman": 0.3, "pairs": 9, "coverage": 1.0}} for v in ("plain", "tuned")}}
    (folder / "similarity.json").write_json(similarity)
    pages = render(artifact, "words", LANGUAGES)
    assert "ρ × 100" in pages["exposure.md"] and "Word similarity" in pages["exposure.html"]
