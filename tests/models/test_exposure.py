"""Mixtures of static and encoded vectors, and tables of their scores."""

import pytest
import torch

from babelray.metrics.bli import bli
from babelray.metrics.word_similarity import Rating, word_similarity
from babelray.models.exposure import (
    MixedVectors,
    RatedPairs,
    best_lambda,
    mean_scores,
    score_rows,
    similarity_curves,
    translation_curves,
)
from babelray.vectors.word_vectors import WordVectors

GRID = {
    "de": {"plain": {"0": {"p1": 0.2}, "1": {"p1": 0.1}}, "tuned": {"0": {"p1": 0.2}, "1": {"p1": 0.4}}},
    "sw": {"plain": {"0": {"p1": 0.4}, "1": {"p1": 0.1}}, "tuned": {"0": {"p1": 0.4}, "1": {"p1": 0.3}}},
}
WORDS = {"en": ["cat", "dog", "bed", "house"], "de": ["Katze", "Hund", "Bett", "Haus"]}


def vectors(width: int, seed: int) -> dict[str, WordVectors]:
    generator = torch.Generator().manual_seed(seed)
    return {
        code: WordVectors(words, torch.randn(4, width, generator=generator), [1] * 4) for code, words in WORDS.items()
    }


@pytest.fixture
def mixed() -> MixedVectors:
    return MixedVectors.fit(vectors(4, 1), vectors(6, 2), {"en": ["cat", "unheard"], "de": WORDS["de"]})


def test_lambda_0_is_the_static_space_and_lambda_1_the_encoder(mixed: MixedVectors) -> None:
    assert torch.allclose(mixed.rotation_ED @ mixed.rotation_ED.T, torch.eye(4), atol=1e-5)
    static, encoded = (torch.nn.functional.normalize(side["de"].matrix) for side in (mixed.static, mixed.encoded))
    assert torch.allclose(mixed.at("de", 0.0).matrix, static @ mixed.rotation_ED, atol=1e-5)
    assert torch.allclose(mixed.at("de", 1.0).matrix, encoded, atol=1e-5)


def test_curves_hold_the_scores_of_each_mixture(mixed: MixedVectors) -> None:
    tests = [("Katze", "cat"), ("Bett", "bed")]
    curves = translation_curves(mixed, [0.0, 0.5], "en", {"de": tests})
    assert curves == {"de": {f"{x:g}": bli(mixed.at("de", x), mixed.at("en", x), tests) for x in (0.0, 0.5)}}
    ratings = [Rating("Katze", "cat", 6.0), Rating("Hund", "bed", 1.0), Rating("Haus", "house", 5.0)]
    rated = RatedPairs("de-en", "de", "en", ratings, "midpoint")
    assert similarity_curves(mixed, [1.0], [rated]) == {
        "de-en": {"1": word_similarity(mixed.encoded["de"], mixed.encoded["en"], ratings)}
    }


def test_means_over_languages() -> None:
    assert mean_scores(GRID, 1.0)["static"] == pytest.approx(0.3)
    assert mean_scores(GRID, 1.0)["tuned/encoder"] == pytest.approx(0.35)
    assert "tuned/mixed" not in mean_scores(GRID, 0.5), "a λ that was not scored"


def test_the_best_lambda_is_the_smallest_of_equals() -> None:
    assert best_lambda(GRID, "de") == "1" and best_lambda(GRID, "sw") == "0"
    equal = {"de": {"tuned": {"0": {"p1": 0.2}, "1": {"p1": 0.2}}}}
    assert best_lambda(equal, "de") == "0"


def test_rows_of_a_table() -> None:
    counts = {"words": 50, "coverage": 0.5}
    grid = {"de": {v: {"0": {"p1": 0.2, **counts}, "1": {"p1": 0.4, **counts}} for v in ("plain", "tuned")}}
    assert score_rows(grid, 0.3) == [("de", 50, 0.5, [0.2, 0.4, None, 0.4, None])]
