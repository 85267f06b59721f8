"""Relative representations against their formulas."""

from typing import get_args

import numpy as np
import pytest
import torch

from babelray.stitching import relative as module
from babelray.stitching.relative import Relative, Weighting, relative, sparsemax, weights
from support.stitching_language import random_rotation

GENERATOR = torch.Generator().manual_seed(1)
WORDS_NE = torch.randn(30, 6, generator=GENERATOR)
ANCHORS_AE = torch.randn(12, 6, generator=GENERATOR)
EMBEDDINGS_AD = torch.randn(12, 4, generator=GENERATOR)


def nearest_on_the_simplex(scores: np.ndarray) -> np.ndarray:
    """By bisection: w = max(z − θ, 0) for the θ at which it adds up to 1."""
    low, high = scores.min() - 1, scores.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(scores - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(scores - low, 0)


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    scores = torch.randn(200, 9, generator=GENERATOR, dtype=torch.double) * torch.linspace(0.01, 5, 200)[:, None]
    wanted = np.stack([nearest_on_the_simplex(row) for row in scores.numpy()])
    assert np.allclose(sparsemax(scores).numpy(), wanted, atol=1e-9)
    assert (sparsemax(scores) == 0).any() and (sparsemax(scores) > 0).sum(1).max() > 1


def test_sparsemax_of_two_is_a_clipped_line() -> None:
    """Martins and Astudillo (2016, section 2.3): of (t, 0) it is max(0, min(1, (t + 1) / 2))."""
    t = torch.linspace(-3, 3, 61)
    weights_N2 = sparsemax(torch.stack([t, torch.zeros(61)], 1))[:, 0]
    assert torch.allclose(weights_N2, ((t + 1) / 2).clamp(0, 1), atol=1e-6)


def test_sparsemax_of_large_scores_is_exact_in_single_precision() -> None:
    scores = torch.randn(5, 8, generator=GENERATOR)
    assert torch.allclose(sparsemax(scores + 1000), sparsemax(scores), atol=1e-3)


def test_weights_sum_to_one_and_use_the_temperature() -> None:
    near = torch.rand(10, 7, generator=GENERATOR)
    for weighting in ("standard", "softmax", "sparsemax"):
        for temperature in (0.1, 1.0):
            assert torch.allclose(weights(near, weighting, temperature).sum(1), torch.ones(10), atol=1e-5)
    assert torch.equal(weights(near, "standard", 0.1), weights(near, "standard", 7.0)), "it cancels"
    assert torch.allclose(weights(near, "softmax", 0.5), near.mul(2).exp() / near.mul(2).exp().sum(1, keepdim=True))
    support = [int((weights(near, "sparsemax", t) > 0).sum()) for t in (0.05, 0.3, 1.0)]
    assert support[0] < support[1] < support[2]


@pytest.mark.parametrize("k", [1, 3, 12, 99, None])
def test_the_papers_formula(k: int | None) -> None:
    """A sum over the k nearest anchors of similarity times embedding, over the sum of the similarities."""
    embeddings_ND = relative(WORDS_NE, ANCHORS_AE, EMBEDDINGS_AD, k)
    for word, row in zip(WORDS_NE.numpy(), embeddings_ND.numpy(), strict=True):
        near = [word @ a / np.linalg.norm(word) / np.linalg.norm(a) for a in ANCHORS_AE.numpy()]
        chosen = sorted(range(12), key=lambda j: -near[j])[:k]
        wanted = sum(near[j] * EMBEDDINGS_AD.numpy()[j] for j in chosen) / sum(near[j] for j in chosen)
        assert np.allclose(row, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("weighting", ["standard", "softmax", "sparsemax"])
def test_a_rotation_of_the_space_changes_nothing(weighting) -> None:
    turned = relative(
        WORDS_NE @ random_rotation(6), 3 * ANCHORS_AE @ random_rotation(6), EMBEDDINGS_AD, 5, weighting, 0.3
    )
    assert torch.allclose(turned, relative(WORDS_NE, ANCHORS_AE, EMBEDDINGS_AD, 5, weighting, 0.3), atol=1e-4)


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = relative(WORDS_NE, ANCHORS_AE, EMBEDDINGS_AD, 5)
    monkeypatch.setattr(module, "CELLS", 12 * 7)
    assert torch.allclose(relative(WORDS_NE, ANCHORS_AE, EMBEDDINGS_AD, 5), whole, atol=1e-6)


@pytest.mark.parametrize("weighting", ["standard", "softmax", "sparsemax"])
def test_a_word_without_direction_is_the_mean_of_the_anchors(weighting) -> None:
    embeddings_ND = relative(torch.zeros(1, 6), ANCHORS_AE, EMBEDDINGS_AD, None, weighting)
    assert torch.allclose(embeddings_ND[0], EMBEDDINGS_AD.mean(0), atol=1e-6)


def test_methods_with_the_same_result_are_equal() -> None:
    assert Relative(k=50, temperature=0.1) == Relative()
    assert Relative(k=1, weighting="softmax", temperature=0.1) == Relative(k=1)
    assert Relative(weighting="softmax", temperature=0.1).temperature == 0.1
    words_NE, anchors_AE = torch.randn(7, 3), torch.randn(4, 3)
    embeddings = [relative(words_NE, anchors_AE, torch.eye(4), 1, weights, 0.1) for weights in get_args(Weighting)]
    assert all(torch.allclose(embeddings_ND, embeddings[0], atol=1e-6) for embeddings_ND in embeddings)
