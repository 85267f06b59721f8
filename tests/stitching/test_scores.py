"""Means over languages and seeds, and tests of significance."""

from pathlib import Path

import pytest

from babelray.stitching.scores import Rank
from babelray.storage import Location
from support.stitching_scores import METRICS, stitching_scores


def test_means_over_languages_and_seeds() -> None:
    scores = stitching_scores()
    assert scores.languages == ["de", "zh"]
    assert scores.means() == pytest.approx({"logistic": 0.55, "squares": 0.2, "relative": 0.5})
    assert scores.by_seed("relative") == pytest.approx([0.4, 0.6])
    assert scores.by_language("de") == pytest.approx({"logistic": 0.5, "squares": 0.3, "relative": 0.7})
    assert scores.in_hub("squares") == pytest.approx(0.8) and scores.in_hub("logistic") is None


def test_the_leaderboard_ranks_by_correct_examples() -> None:
    """Twelve examples in both languages that all favour one system: p = 2^(1 − 12), twice for two comparisons."""
    best, second, last = stitching_scores().leaderboard
    assert best == Rank("relative", 0.75, None, True)
    assert second == Rank("logistic", 0.5, pytest.approx(2**-10), False)
    assert last == Rank("squares", 0.0, pytest.approx(2**-10), False)


def test_differences_to_the_baseline() -> None:
    logistic, relative = stitching_scores().differences
    assert (logistic.system, relative.system) == ("logistic", "relative")
    assert (logistic.macro_f1, logistic.correct) == pytest.approx((0.35, 0.5))
    assert (relative.macro_f1, relative.correct) == pytest.approx((0.3, 0.75))
    assert logistic.p == relative.p == pytest.approx(2**-10)
    assert stitching_scores(None).differences == []


def test_saved_scores_load_again(tmp_path: Path) -> None:
    folder, scores = Location.parse(tmp_path), stitching_scores()
    scores.save(folder)
    assert type(scores).load(folder) == scores
    assert (folder / "scores.json").read_json() == METRICS
