"""What the evaluate stage measures of static vectors, on vectors whose answers are known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from babelray.errors import DataError
from babelray.evaluation.config import EvaluateConfig
from babelray.evaluation.word_similarity import WordSimilaritySource
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.stages.evaluate import (
    EvaluateStage,
    EvaluationSettings,
    _matrix_row,
    _vector_scores,
    averages,
    between_all,
    judge,
)
from babelray.storage import Place
from babelray.vectors.word_vectors import WordVectors


@pytest.fixture
def places(tmp_path: Path) -> tuple[Place, Place]:
    """Vectors of three languages, all right but for one Dutch word, and test pairs with the hub."""
    vectors, corpus = Place.parse(tmp_path / "vectors"), Place.parse(tmp_path / "corpus")
    for code in ("en", "de", "nl"):
        matrix = torch.eye(6) if code != "nl" else torch.eye(6)[[1, 0, 2, 3, 4, 5]]
        WordVectors([f"{code}{i}" for i in range(6)], matrix, [1] * 6).save(vectors / "vectors" / code)
        if code != "en":
            write_pairs(corpus / "dictionary" / f"{code}-en", [Pair(f"{code}{i}", f"en{i}", "test") for i in range(4)])
    return vectors, corpus


def settings(**config: object) -> EvaluationSettings:
    return EvaluationSettings(languages=["en", "de", "nl"], hub="en", evaluate=EvaluateConfig(**config))


def test_all_pairs_of_languages(places: tuple[Place, Place]) -> None:
    rows = {code: _matrix_row(settings(bli="matrix"), code, *places) for code in ("en", "de", "nl")}
    assert rows == {
        "en": {"de": 1.0, "nl": 0.5},
        "de": {"en": 1.0, "nl": 0.5},
        "nl": {"en": 0.5, "de": 0.5},
    }


def test_word_similarity_within_and_across_languages(places: tuple[Place, Place], tmp_path: Path) -> None:
    (tmp_path / "de.txt").write_text("de0\tde0\t4\nde0\tde1\t1\nde2\tde2\t4\n")
    (tmp_path / "de-nl.txt").write_text("de0\tnl1\t3\nde0\tnl0\t1\nde2\tnl3\t1\n")
    config = settings(
        word_similarity=[{"path": str(tmp_path / "{lang}.txt")}, {"path": str(tmp_path / "{first}-{second}.txt")}]
    )
    scores = _vector_scores(config, ["de", "nl"], *places)
    assert set(scores["similarity"]) == {"de", "de-nl"}
    assert scores["similarity"]["de"]["harmonic"] == pytest.approx(1.0)
    assert scores["similarity"]["de-nl"]["spearman"] == pytest.approx(1.0)
    assert scores["bli"]["nl"]["p1"] == 0.5 and scores["bli"]["nl"]["nn"]["p1"] == 0.5
    assert averages({"similarity": {"after": scores["similarity"]}})["similarity/after"] == pytest.approx(1.0)
    assert {place.name for place in EvaluateStage().sources(config)} == {"de.txt", "de-nl.txt"}


def test_ratings_that_no_language_has(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no language has a file"):
        WordSimilaritySource(path=str(tmp_path / "{lang}.csv")).files(["en", "de"])


def test_retrieval_between_languages_by_what_they_translate() -> None:
    """German and Dutch share ten sentences, Swahili only one with them."""
    matrix = torch.eye(12)
    aligned = {
        "de": {str(i): matrix[i] for i in range(11)},
        "nl": {str(i): matrix[i if i > 1 else 1 - i] for i in range(10)},
        "sw": {"0": matrix[0]},
    }
    found = between_all(aligned)
    assert found == {"de": {"nl": pytest.approx(0.8)}, "nl": {"de": pytest.approx(0.8)}, "sw": {}}
    assert between_all({"de": aligned["de"], "sw": aligned["sw"]}) == {}


def test_a_task_that_was_judged_is_not_judged_again(tiny_encoder: str, tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("de\ten\nein Hund\ta dog\neine Katze\ta cat\n")
    config = settings(tasks=[{"task": "tatoeba", "data": str(tmp_path / "table.tsv"), "layer": -1}])
    (task,) = config.evaluate.tasks
    out = Place.parse(tmp_path / "out")
    first = judge(task, Place.parse(tiny_encoder), out, "before")
    assert judge(task, Place.parse("/nowhere"), out, "before") == first
    assert (out / "predictions" / "tatoeba-before.json").exists()


def test_tasks_whose_data_are_not_there(tmp_path: Path) -> None:
    absent = {"task": "tatoeba", "data": str(tmp_path / "nothing.tsv")}
    with pytest.raises(DataError):
        EvaluateStage().sources(settings(tasks=[absent]))
    assert EvaluateStage().sources(settings(tasks=[absent | {"required": False}])) == []
