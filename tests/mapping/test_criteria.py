import math

import numpy as np
import pytest
import torch
from torch import nn

from babelray.mapping.criteria import (
    comparable,
    confident_pairs,
    log_singular_values,
    precision,
    semantic,
    structural,
)
from babelray.mapping.muse import criterion


def world(words: int = 200, width: int = 6, noise: float = 0.05) -> tuple[torch.Tensor, torch.Tensor]:
    """Two languages in one space; word i translates word i."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(words, width, generator=generator) * torch.linspace(2, 0.5, width)
    return x, x + noise * torch.randn(words, width, generator=generator)


def csls_by_definition(similarity: torch.Tensor, k: int) -> torch.Tensor:
    forward, backward = similarity.topk(k, dim=1).values.mean(1), similarity.topk(k, dim=0).values.mean(0)
    return 2 * similarity - forward[:, None] - backward


@pytest.mark.parametrize("similarity", ["cosine", "distance"])
def test_the_most_confident_translations_by_definition(similarity: str) -> None:
    x, y = world(noise=0.4)
    table = -torch.cdist(x, y).square() if similarity == "distance" else torch.cosine_similarity(x[:, None], y, dim=2)
    csls = csls_by_definition(table[:100, :100], 7)
    best = csls.max(1).values.topk(30).indices
    rows, columns = confident_pairs(x, y, csls=7, words=100, pairs=30, similarity=similarity)
    assert rows.tolist() == best.tolist()
    assert columns.tolist() == csls.argmax(1)[best].tolist()


def test_products_are_the_similarities() -> None:
    x, y = world()
    a, b = comparable(x, y, "distance")
    assert torch.allclose(a @ b.T, -torch.cdist(x, y).square(), atol=1e-4)
    a, b = comparable(x, y, "cosine")
    assert torch.allclose(a @ b.T, torch.cosine_similarity(x[:, None], y, dim=2), atol=1e-5)


def test_semantic_is_the_criterion_of_muse_and_for_unit_vectors_the_same_by_distance() -> None:
    x, y = world(noise=0.3)
    assert semantic(x, y, csls=10, words=200) == pytest.approx(criterion(x, y, 10, 200), abs=1e-6)
    x, y = nn.functional.normalize(x), nn.functional.normalize(y)
    assert semantic(x, y, similarity="distance") == pytest.approx(semantic(x, y), abs=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "distance"])
def test_both_criteria_say_that_the_right_mapping_is_better(similarity: str) -> None:
    x, y = world()
    turn = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1))).Q
    squeezed = x * torch.tensor([1.0, 1, 1, 1, 0.2, 3])
    assert semantic(x, y, similarity=similarity) > semantic(x @ turn, y, similarity=similarity) + 0.01
    assert structural(x, y, similarity=similarity) > structural(squeezed, y, similarity=similarity) + 0.5


def test_structural_by_definition() -> None:
    x, y = world(noise=0.3)
    rows, columns = confident_pairs(x, y)
    spectra = [np.linalg.svd(side.double().numpy(), compute_uv=False) for side in (x[rows], y[columns])]
    assert structural(x, y) == pytest.approx(-np.square(np.log(spectra[0]) - np.log(spectra[1])).sum())
    assert structural(x, x) == pytest.approx(0, abs=1e-9)


def test_a_spectrum_that_ends_in_zeros_is_cut() -> None:
    flat = torch.cat([torch.randn(50, 3), torch.zeros(50, 2)], 1)
    values = log_singular_values(flat)
    assert values.isfinite().all() and (values[3:] - values[0]).tolist() == pytest.approx([math.log(1e-6)] * 2)


def test_precision_of_validation_pairs() -> None:
    x, _ = world(words=50)
    assert precision(x, x) == 1
    assert precision(x, x.roll(1, 0)) == 0
    twice = torch.cat([x[:5], x[:5]])
    assert precision(twice, twice) == 1, "either of two equal translations is right"
