import copy
import math

import pytest
import torch

from babelray.mapping.adversarial_flows import AdversarialFlows, AlmostOrthogonal, critic
from babelray.mapping.flow import FlowPair
from babelray.mapping.gan_real_nvp import GanRealNvpConfig
from support.skewed_words import SMALL, seeded, world


def steepness(h: torch.nn.Module) -> float:
    """A bound of what h can rise by along a step of length 1: the product of the layers' largest singular values."""
    return math.prod(torch.linalg.matrix_norm(x.weight.detach(), 2).item() for x in h if hasattr(x, "weight"))


def build(config: GanRealNvpConfig, width: int) -> AdversarialFlows:
    return AdversarialFlows(FlowPair(width, config.layers, config.hidden, config.depth), config, seed=1)


def test_a_critic_is_nowhere_steeper_than_one_before_and_while_it_learns() -> None:
    x, y = world()
    training = build(GanRealNvpConfig(**SMALL), 3)
    for _ in range(4):
        for h in (training.critic_x, training.critic_y):
            assert steepness(h) < 1 + 1e-5
            a, b = 10 * torch.randn(2, 500, 3, generator=seeded(3))
            with torch.no_grad():
                rise = (h(a) - h(b)).abs().flatten() / (a - b).norm(dim=1)
            assert rise.max() < 1 + 1e-5
        training.epoch(x, y)


def test_a_layer_is_as_steep_as_it_may_be_where_its_rows_are_orthogonal() -> None:
    layer = AlmostOrthogonal()
    turned = torch.linalg.qr(torch.randn(8, 5, generator=seeded(0))).Q.T * torch.linspace(0.1, 9, 5)[:, None]
    assert torch.allclose(torch.linalg.svdvals(layer(turned)), torch.ones(5), atol=1e-5)
    for number in range(20):
        wide = torch.randn(5, 8, generator=seeded(number)).exp()
        assert 0.5 < torch.linalg.matrix_norm(layer(wide), 2) <= 1 + 1e-5
    assert torch.equal(layer(torch.zeros(3, 4)), torch.zeros(3, 4))
    assert steepness(critic(40, 16)) < 1


def test_the_distance_is_the_earth_movers() -> None:
    """Two heaps of the same shape are as far apart as their means. Both directions are counted."""
    x = torch.randn(600, 2, generator=seeded(0))
    y = torch.randn(600, 2, generator=seeded(1)) + torch.tensor([2.0, 1.0])
    training = build(GanRealNvpConfig(**SMALL | {"learning_rate": 1e-12}), 2)
    distances = [training.epoch(x, y) for _ in range(4)]
    assert distances[-1] == pytest.approx(2 * math.sqrt(5), rel=0.1)
    assert distances[0] < distances[-1] * 1.05


def test_a_step_of_the_flows_by_autograd() -> None:
    """One word on each side, so that it does not matter which are drawn; RMSprop's first step is known."""
    x, y = torch.randn(1, 4, generator=seeded(0)), torch.randn(1, 4, generator=seeded(1))
    config = GanRealNvpConfig(**SMALL | {"batch_size": 1, "critic_steps": 1, "likelihood": 0.3})
    training = build(config, 4)
    flows = copy.deepcopy(training.flows)
    training.epoch(x, y, lambda function, a, b, generator: 2 * (function(a) - b).square().sum())
    critic_x, critic_y = (copy.deepcopy(h).eval() for h in (training.critic_x, training.critic_y))
    density = flows.source().log_prob(x) + flows.target().log_prob(y)
    loss = -critic_y(flows(x)).sum() - critic_x(flows.back(y)).sum() - 0.3 * density.sum()
    loss = loss + 2 * (flows(x) - y).square().sum()
    loss.backward()
    for before, after in zip(flows.parameters(), training.flows.parameters(), strict=True):
        slope = torch.zeros_like(before) if before.grad is None else before.grad
        step = config.learning_rate * slope / (math.sqrt(0.01) * slope.abs() + 1e-8)
        assert torch.allclose(after, before - step, atol=2e-4)
