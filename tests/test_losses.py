"""Losses for other training loops, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import babelray as br
from babelray.errors import BabelrayError
from babelray.objectives.sinkhorn import sinkhorn_divergence


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_contrastive_is_cross_entropy_in_both_directions() -> None:
    x, y = random(6, 4), random(6, 4, seed=1)
    logits = 20 * functional.normalize(x) @ functional.normalize(y).T
    both = [functional.cross_entropy(side, torch.arange(6)) for side in (logits, logits.T)]
    assert torch.allclose(br.losses.contrastive(x, y), sum(both) / 2)
    same = torch.eye(6, dtype=torch.bool)
    same[0, 1] = same[1, 0] = True
    logits[0, 1] = logits[1, 0] = float("-inf")
    both = [functional.cross_entropy(side, torch.arange(6)) for side in (logits, logits.T)]
    assert torch.allclose(br.losses.contrastive(x, y, same=same), sum(both) / 2)


def test_distillation() -> None:
    x, y = random(5, 3), random(5, 3, seed=1)
    distance = (1 - functional.cosine_similarity(x, y)).mean()
    assert torch.allclose(br.losses.distillation(x, y), distance)
    assert torch.allclose(br.losses.distillation(x, y, scale=20), distance + br.losses.contrastive(x, y, 20))


def test_static_dcca_is_the_sum_of_correlations() -> None:
    x, y = random(200, 3), random(200, 4, seed=1) + torch.cat([random(200, 3), random(200, 1, seed=2)], 1)
    centred = [(view - view.mean(0)).double().numpy() for view in (x, y)]
    bases = [np.linalg.qr(view)[0] for view in centred]
    correlations = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    assert br.losses.static_dcca(x, y, shrinkage=1e-9).item() == pytest.approx(-correlations.sum(), abs=1e-4)


def test_static_mse_and_word_l2() -> None:
    x, y = random(5, 3), random(5, 3, seed=1)
    assert torch.allclose(br.losses.static_mse(x, y), functional.mse_loss(x, y))
    source, target, links = random(2, 4, 3), random(2, 5, 3, seed=1), [(0, 1, 4), (0, 2, 0), (1, 3, 3)]
    expected = sum((source[b, i] - target[b, j]).square().sum() for b, i, j in links) / 2
    assert torch.allclose(br.losses.word_l2(source, target, torch.tensor(links)), expected)


def test_sinkhorn_is_that_of_the_objective() -> None:
    assert br.losses.sinkhorn_divergence is sinkhorn_divergence


@pytest.mark.parametrize("name", ["contrastive", "distillation", "static_dcca", "static_mse"])
def test_gradients_reach_the_encoder(name: str) -> None:
    x = random(20, 4).requires_grad_()
    loss = getattr(br.losses, name)(x, random(20, 4, seed=1))
    loss.backward()
    assert loss.ndim == 0 and torch.isfinite(x.grad).all() and x.grad.abs().sum() > 0


def test_shapes_are_checked() -> None:
    for name in ("contrastive", "distillation", "static_dcca"):
        with pytest.raises(BabelrayError, match="as many rows"):
            getattr(br.losses, name)(random(3, 4), random(2, 4))


def test_every_name_has_an_example() -> None:
    for name in br.losses.__all__:
        assert ">>> " in getattr(br.losses, name).__doc__, name
