import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from babelray.objectives.transport import drift, sinkhorn_divergence


def test_small_blur_gives_the_optimal_assignment() -> None:
    """With uniform weights and equal lengths, the limit of S_ε is the cost of the best assignment."""
    torch.manual_seed(0)
    source, target = torch.randn(3, 5, 4), torch.randn(3, 5, 4)
    mask = torch.ones(3, 5)
    for p, cost_of in ((1, lambda d: d), (2, lambda d: d**2 / 2)):
        values = sinkhorn_divergence(source, mask, target, mask, blur=0.01, p=p, scaling=0.99)
        for i in range(3):
            cost = cost_of(torch.cdist(source[i], target[i]).numpy())
            expected = cost[linear_sum_assignment(cost)].mean()
            assert values[i].item() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("p", [1, 2])
def test_padding_changes_neither_value_nor_gradient(p: int) -> None:
    torch.manual_seed(0)
    source, target = torch.randn(1, 4, 3), torch.randn(1, 6, 3)
    results = []
    for padding in (0, 5):
        x = torch.cat([source, 50 * torch.randn(1, padding, 3)], 1).requires_grad_()
        masks = torch.arange(4 + padding).unsqueeze(0) < 4, torch.ones(1, 6)
        value = sinkhorn_divergence(x, masks[0], target, masks[1], blur=0.05, p=p)
        (gradient,) = torch.autograd.grad(value.sum(), x)
        results.append((value.item(), gradient[:, :4]))
        assert torch.equal(gradient[:, 4:], torch.zeros(1, padding, 3))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-5)


def test_a_sentence_is_at_no_distance_from_itself_reordered() -> None:
    x = torch.randn(1, 6, 4)
    mask = torch.ones(1, 6)
    assert sinkhorn_divergence(x, mask, x[:, torch.randperm(6)], mask, 0.05, 2).item() == pytest.approx(0, abs=1e-4)


def test_drift_by_hand() -> None:
    current = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[3.0, 0.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1], [1, 0]])
    assert drift(current, torch.zeros_like(current), mask).item() == np.mean([5.0, 9.0])
