"""The tables and the page of the stitch stage, on scores whose best cells are known."""

from pathlib import Path

from babelray.languages import LANGUAGES
from babelray.report.stitching import (
    difference_table,
    language_table,
    leaderboard_table,
    markdown_tables,
    render,
    score_table,
)
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from support.stitching_scores import stitching_scores

LANGUAGE_DATA = {
    code: {"words": 1234, "covered": 0.5, "anchors": {"squares": 70, "relative": 70, "confident": 7}}
    for code in ("de", "zh")
}


def test_means_over_seeds_with_the_best_of_each_column_marked() -> None:
    head, logistic, squares, relative = score_table(stitching_scores())
    assert head == ["", "mean", "de", "zh", "en"]
    assert logistic == ["logistic", "**55.0**", "50.0", "**60.0**", "–"]
    assert squares == ["squares", "20.0 ± 7.1", "30.0", "10.0", "80.0"]
    assert relative == ["relative", "50.0 ± 14.1", "**70.0**", "30.0", "80.0"]


def test_the_best_is_marked_on_the_leaderboard() -> None:
    _, best, second, _ = leaderboard_table(stitching_scores())
    assert best == ["relative ●", "50.0 ± 14.1", "75.0", ""]
    assert second == ["logistic", "55.0", "50.0", "< 0.001"]


def test_differences_to_least_squares() -> None:
    _, logistic, relative = difference_table(stitching_scores())
    assert logistic == ["logistic", "+35.0", "+50.0", "< 0.001"]
    assert relative == ["relative", "+30.0", "+75.0", "< 0.001"]
    assert "against" not in markdown_tables(stitching_scores(None), LANGUAGE_DATA)


def test_anchors_are_shown_once_for_systems_that_have_the_same() -> None:
    head, german, _ = language_table(LANGUAGE_DATA)
    assert head == ["", "words", "covered %", "anchors: squares", "anchors: confident"]
    assert german == ["de", "1,234", "50", "70", "7"]


def test_the_page_is_rendered_from_the_artifact(tmp_path: Path) -> None:
    folder = Location.parse(tmp_path)
    stitching_scores().save(folder)
    (folder / "languages.json").write_json(LANGUAGE_DATA)
    pages = render(Artifact(folder, {}), "<topics>", LANGUAGES)
    assert pages["stitching.md"] == markdown_tables(stitching_scores(), LANGUAGE_DATA)
    page = pages["stitching.html"]
    assert "&lt;topics&gt;" in page and page.count("<svg") == 1
    assert "German" in page and "relative 50.0" in page and "Against squares" in page
