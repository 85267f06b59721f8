import itertools

import numpy as np
import pytest
import torch
from geomloss import SamplesLoss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from babelray.errors import BabelrayError
from babelray.objectives import sinkhorn
from babelray.objectives.sinkhorn import sinkhorn_divergence, transport_plan


def ragged(pairs: int, longest: int, dimension: int, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, ...]:
    """Source, its mask, target, its mask; words stand anywhere, as they do between special tokens."""
    generator = torch.Generator().manual_seed(seed)
    sides = []
    for width in (longest, longest + 2):
        lengths = torch.randint(1, longest + 1, (pairs, 1), generator=generator)
        order = torch.rand(pairs, width, generator=generator).argsort(1)
        sides += [scale * torch.randn(pairs, width, dimension, generator=generator), order < lengths]
    return sides[0], sides[1], sides[2], sides[3]


def with_gradients(value, source: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Values (B,), and the gradients of a sum in which every pair has another weight."""
    sides = [source.detach().clone().requires_grad_(), target.detach().clone().requires_grad_()]
    values = value(*sides)
    upstream = torch.linspace(1, 2, len(values))
    return values.detach(), list(torch.autograd.grad(values, sides, upstream.to(values.dtype)))


def geomloss_by_pair(source_mask: Tensor, target_mask: Tensor, dtype: torch.dtype, **options):
    loss = SamplesLoss("sinkhorn", backend="tensorized", **options)

    def value(source: Tensor, target: Tensor) -> Tensor:
        pairs = zip(source.to(dtype), source_mask, target.to(dtype), target_mask, strict=True)
        return torch.stack([loss(x[m], y[n]) for x, m, y, n in pairs])

    return value


@pytest.mark.parametrize(
    ("p", "debias", "scales", "size"),
    itertools.product(
        [1, 2],
        [True, False],
        [(0.05, 0.5), (0.05, 0.1), (0.3, 0.8), (0.3, 0.5), (20.0, 0.5)],
        [(3, 1.0), (64, 0.2)],
    ),
)
def test_geomloss_on_every_pair_alone(
    p: int, debias: bool, scales: tuple[float, float], size: tuple[int, float]
) -> None:
    """In float64, since geomloss' own float32 distances of a word to itself are not zero.

    A blur of 20 is larger than the pairs.
    """
    blur, scaling = scales
    options = {"p": p, "blur": blur, "scaling": scaling, "debias": debias}
    x, x_mask, y, y_mask = ragged(5, 9, size[0], scale=size[1])
    x, y = x + 3, y + 3  # as the vectors of an encoder, whose mean is far from zero
    ours, gradients = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask, b, y_mask, **options), x, y)
    theirs, expected = with_gradients(geomloss_by_pair(x_mask, y_mask, torch.float64, **options), x, y)
    assert torch.allclose(ours, theirs.float(), rtol=1e-5, atol=1e-5 * max(1, blur))
    for own, other in zip(gradients, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-4, atol=1e-4)


def test_geomloss_in_float32_at_the_size_of_an_encoder() -> None:
    x, x_mask, y, y_mask = ragged(16, 20, 768, scale=0.1)
    ours, gradients = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask, b, y_mask), x, y)
    theirs, expected = with_gradients(geomloss_by_pair(x_mask, y_mask, torch.float32), x, y)
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    for own, other in zip(gradients, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-4, atol=1e-4)


def test_pairs_of_very_different_size_have_schedules_of_their_own() -> None:
    x, x_mask, y, y_mask = ragged(5, 6, 4)
    scale = torch.tensor([1e-3, 0.1, 1.0, 30.0, 1000.0]).view(5, 1, 1)
    x, y = x * scale, y * scale
    ours = sinkhorn_divergence(x, x_mask, y, y_mask)
    theirs = geomloss_by_pair(x_mask, y_mask, torch.float64)(x, y)
    assert torch.allclose(ours, theirs.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_pot_when_converged(p: int) -> None:
    ot = pytest.importorskip("ot")
    x, x_mask, y, y_mask = ragged(4, 6, 5)
    blur, options = 1.5, {"blur": 1.5, "p": p, "iterations": 500}
    biased = sinkhorn_divergence(x, x_mask, y, y_mask, debias=False, **options)
    debiased = sinkhorn_divergence(x, x_mask, y, y_mask, **options)
    plans = transport_plan(x, x_mask, y, y_mask, **options)

    def solved(first: Tensor, second: Tensor):
        distance = torch.cdist(first.double(), second.double())
        cost = (distance if p == 1 else distance.square() / 2).numpy()
        return cost, ot.solve(cost, reg=blur**p, reg_type="KL", max_iter=5000, tol=1e-9)

    for i in range(4):
        first, second = x[i][x_mask[i]], y[i][y_mask[i]]
        cost, across = solved(first, second)
        assert biased[i].item() == pytest.approx(across.value, rel=1e-4)
        own = [solved(side, side)[1].value for side in (first, second)]
        assert debiased[i].item() == pytest.approx(across.value - sum(own) / 2, rel=1e-4)
        plan = plans[i][x_mask[i]][:, y_mask[i]].numpy()
        assert np.allclose(plan, across.plan, atol=1e-5)
        uniform = [np.full(n, 1 / n) for n in plan.shape]
        linear = ot.sinkhorn2(*uniform, cost, blur**p, method="sinkhorn_log", numItermax=5000, stopThr=1e-9)
        assert (plan * cost).sum() == pytest.approx(float(linear), rel=1e-4)


@pytest.mark.parametrize("p", [1, 2])
def test_small_blur_gives_the_optimal_assignment(p: int) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(3, 5, 4), torch.randn(3, 5, 4)
    mask = torch.ones(3, 5)
    values = sinkhorn_divergence(x, mask, y, mask, blur=0.01, p=p, scaling=0.95)
    plans = transport_plan(x, mask, y, mask, blur=0.01, p=p, scaling=0.95)
    for i in range(3):
        distance = torch.cdist(x[i], y[i]).numpy()
        cost = distance if p == 1 else distance**2 / 2
        rows, columns = linear_sum_assignment(cost)
        assert values[i].item() == pytest.approx(cost[rows, columns].mean(), rel=0.02)
        assert plans[i].argmax(1).tolist() == columns.tolist()


@pytest.mark.parametrize("p", [1, 2])
def test_more_iterations_converge(p: int) -> None:
    """The fixed point does not depend on how fast ε descended; without more iterations the value does."""
    x, x_mask, y, y_mask = ragged(4, 8, 3)

    def spread(iterations: int | None) -> float:
        fast, slow = (sinkhorn_divergence(x, x_mask, y, y_mask, 0.3, p, s, iterations) for s in (0.2, 0.9))
        return float((fast - slow).abs().max())

    assert spread(1000) < 1e-5 < 1e-3 < spread(None)


@pytest.mark.parametrize(("p", "padding"), itertools.product([1, 2], [0.0, 1e4, float("nan"), float("inf")]))
def test_padding_changes_neither_value_nor_gradient(p: int, padding: float) -> None:
    x, x_mask, y, y_mask = ragged(6, 9, 5)

    def value(a: Tensor, b: Tensor) -> Tensor:
        return sinkhorn_divergence(a, x_mask, b, y_mask, p=p)

    filled = [side.masked_fill(~mask.unsqueeze(2), padding) for side, mask in ((x, x_mask), (y, y_mask))]
    (plain, expected), (other, gradients) = with_gradients(value, x, y), with_gradients(value, *filled)
    assert torch.equal(plain, other)
    for gradient, own, mask in zip(gradients, expected, (x_mask, y_mask), strict=True):
        assert torch.equal(gradient, own)
        assert (gradient[~mask] == 0).all() and (gradient[mask] != 0).any()


@pytest.mark.parametrize("p", [1, 2])
def test_a_pair_is_the_same_alone_and_in_any_batch(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, x_mask, y, y_mask = ragged(8, 12, 5)
    global_context, gradients = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask, b, y_mask, p=p), x, y)
    for cells in ("GROUP_CELLS", "CELLS"):  # every length a group of its own, then every pair
        with monkeypatch.context() as patch:
            patch.setattr(sinkhorn, cells, 1)
            cut, other = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask, b, y_mask, p=p), x, y)
        assert torch.allclose(global_context, cut, rtol=1e-5, atol=1e-5)
        assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(gradients, other, strict=True))
    alone = [
        sinkhorn_divergence(x[i, m].unsqueeze(0), m[m].unsqueeze(0), y[i, n].unsqueeze(0), n[n].unsqueeze(0), p=p)
        for i, (m, n) in enumerate(zip(x_mask, y_mask, strict=True))
    ]
    assert torch.allclose(global_context, torch.cat(alone), rtol=1e-5, atol=1e-5)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]), st.sampled_from([0.05, 0.5]), st.integers(1, 40))
def test_symmetric_nonnegative_and_zero_on_itself(seed: int, p: int, blur: float, dimension: int) -> None:
    x, x_mask, y, y_mask = ragged(4, 8, dimension, seed)
    there = sinkhorn_divergence(x, x_mask, y, y_mask, blur, p, iterations=50)
    back = sinkhorn_divergence(y, y_mask, x, x_mask, blur, p, iterations=50)
    assert torch.allclose(there, back, rtol=1e-5, atol=1e-5)
    assert (there > -1e-3).all()
    order = torch.randperm(x.shape[1])
    value, gradients = with_gradients(
        lambda a, b: sinkhorn_divergence(a, x_mask, b, x_mask[:, order], blur, p), x, x[:, order]
    )
    assert torch.allclose(value, torch.zeros(4), atol=1e-3)
    assert all(gradient.abs().max() < 0.02 for gradient in gradients)


def test_plan_marginals_and_zero_padding() -> None:
    x, x_mask, y, y_mask = ragged(6, 9, 4)
    rows, columns = (mask / mask.sum(1, keepdim=True) for mask in (x_mask, y_mask))
    quick = transport_plan(x, x_mask, y, y_mask, blur=0.3)
    exact = transport_plan(x, x_mask, y, y_mask, blur=0.3, iterations=2000)
    for plan in (quick, exact):
        assert plan.shape == (6, 9, 11) and (plan >= 0).all()
        assert torch.allclose(plan.sum(2), rows, atol=1e-6)
        assert (plan[~(x_mask.unsqueeze(2) & y_mask.unsqueeze(1))] == 0).all()
    assert torch.allclose(exact.sum(1), columns, atol=1e-4)
    assert (quick.sum(1) - columns).abs().max() > 1e-3
    assert torch.allclose(transport_plan(y, y_mask, x, x_mask, blur=0.3, iterations=2000).mT, exact, atol=1e-4)


def test_an_empty_side_is_worth_nothing() -> None:
    x, x_mask, y, y_mask = ragged(4, 6, 3)
    x_mask[1], y_mask[2] = False, False
    x_mask[3], y_mask[3] = False, False
    value, gradients = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask, b, y_mask), x, y)
    assert value[0] > 0 and value[1:].tolist() == [0, 0, 0]
    assert all(gradient[0].any() and not gradient[1:].any() for gradient in gradients)
    assert not transport_plan(x, x_mask, y, y_mask)[1:].any()
    value, gradients = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask[1:], b, y_mask[1:]), x[1:], y[1:])
    assert not value.any() and not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("p", [1, 2])
def test_all_words_the_same(p: int) -> None:
    x, mask = torch.full((2, 3, 4), 7.0), torch.ones(2, 3)
    value, gradients = with_gradients(lambda a, b: sinkhorn_divergence(a, mask, b, mask, p=p), x, x[:, :3])
    assert value.abs().max() < 1e-6 and not any(gradient.isnan().any() for gradient in gradients)


def test_whatever_comes_in_is_computed_in_float32() -> None:
    x, x_mask, y, y_mask = ragged(5, 7, 16)
    x, y = x.bfloat16(), y.bfloat16()

    def value(a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return sinkhorn_divergence(a, x_mask, b, y_mask)

    expected, gradients = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask, b, y_mask), x.float(), y.float())
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        found, rounded = with_gradients(value, x.to(dtype), y.to(dtype))
        assert found.dtype == torch.float32 and torch.equal(found, expected)
        assert [gradient.dtype for gradient in rounded] == [dtype, dtype]
        assert all(torch.equal(a, b.to(dtype)) for a, b in zip(rounded, gradients, strict=True))


def test_one_side_alone_may_ask_for_a_gradient() -> None:
    x, x_mask, y, y_mask = ragged(3, 6, 4)
    _, expected = with_gradients(lambda a, b: sinkhorn_divergence(a, x_mask, b, y_mask), x, y)
    y.requires_grad_()
    sinkhorn_divergence(x, x_mask, y, y_mask).backward(torch.linspace(1, 2, 3))
    assert torch.equal(y.grad, expected[1]) and x.grad is None
    assert not sinkhorn_divergence(x, x_mask, y.detach(), y_mask).requires_grad


def test_a_vector_that_is_not_a_number_is_not_hidden() -> None:
    x, x_mask, y, y_mask = ragged(3, 6, 4)
    x[1] = torch.nan
    assert sinkhorn_divergence(x, x_mask, y, y_mask).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("wrong", [{"p": 3}, {"blur": 0.0}, {"scaling": 1.0}, {"iterations": -1}])
def test_what_cannot_be_asked_for(wrong: dict[str, float]) -> None:
    with pytest.raises(BabelrayError, match=next(iter(wrong))):
        sinkhorn_divergence(*ragged(2, 3, 4), **wrong)
