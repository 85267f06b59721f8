import copy

import pytest
import torch
from torch.nn import functional

from babelray.mapping.adversarial_rotation import descend, discriminator, dropout, toward_rotation, train_epoch
from babelray.mapping.muse import MuseConfig


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def probability_logits(parameters: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = functional.leaky_relu(x @ weight + bias, 0.2)
    return x @ parameters[-2] + parameters[-1]


def cross_entropy(parameters: list[torch.Tensor], x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(probability_logits(parameters, x), label, reduction="sum")


def test_slopes_are_those_of_autograd() -> None:
    layers = [(weight.double(), bias.double()) for weight, bias in discriminator(5, 7, seeded(0))]
    parameters = [part.clone().requires_grad_() for layer in layers for part in layer]
    x = torch.randn(6, 5, generator=seeded(1)).double().requires_grad_()
    label = torch.rand(6, 1, generator=seeded(2)).double()
    x_slope, *slopes = torch.autograd.grad(cross_entropy(parameters, x, label), [x, *parameters])
    before = copy.deepcopy(layers)
    assert torch.allclose(descend(layers, x.detach(), label), x_slope)
    assert all(
        torch.equal(a, b) for old, new in zip(before, layers, strict=True) for a, b in zip(old, new, strict=True)
    )
    assert torch.allclose(descend(layers, x.detach(), label, rate=0.3), x_slope)
    found = [part for layer in layers for part in layer]
    for after, start, slope in zip(found, parameters, slopes, strict=True):
        assert torch.allclose(after, start - 0.3 * slope)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_step_of_the_game_by_autograd(steps: int) -> None:
    """One word on each side, so that it does not matter which are drawn."""
    config = MuseConfig(
        steps=1, batch_size=3, discriminator_steps=steps, input_dropout=0, smoothing=0.1, orthogonality=0.02
    )
    x, z, w = torch.randn(1, 4, generator=seeded(0)), torch.randn(1, 4, generator=seeded(1)), torch.eye(4)
    layers = discriminator(4, 6, seeded(2))
    parameters = [part.clone().requires_grad_() for layer in layers for part in layer]
    found = train_epoch((x, z), w, layers, 0.5, config, seeded(3))
    source_label = torch.tensor([[0.9]])
    for _ in range(steps):
        loss = cross_entropy(parameters, x @ w, source_label) + cross_entropy(parameters, z, 1 - source_label)
        slopes = torch.autograd.grad(loss, parameters)
        parameters = [part - 0.5 * slope for part, slope in zip(parameters, slopes, strict=True)]
    learned = [part for layer in layers for part in layer]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(learned, parameters, strict=True))
    free = w.clone().requires_grad_()
    (slope,) = torch.autograd.grad(cross_entropy(parameters, x @ free, 1 - source_label), free)
    stepped = w - 0.5 * slope
    assert torch.allclose(found, 1.02 * stepped - 0.02 * stepped @ stepped.T @ stepped, atol=1e-6)


def test_an_entry_that_was_dropped_teaches_nothing() -> None:
    config = MuseConfig(steps=1, batch_size=1, input_dropout=0.5, orthogonality=0)
    x = torch.randn(1, 40, generator=seeded(0))
    w = train_epoch((x, -x), torch.eye(40), discriminator(40, 8, seeded(1)), 0.5, config, seeded(2))
    changed = (w != torch.eye(40)).all(0)
    assert 10 < changed.sum() < 30
    assert torch.equal(w[:, ~changed], torch.eye(40)[:, ~changed])


def test_dropout_keeps_the_mean() -> None:
    mask = dropout(torch.ones(200, 500), 0.2, seeded(0))
    assert mask.unique().tolist() == [0, 1.25]
    assert (mask == 0).float().mean().item() == pytest.approx(0.2, abs=0.01)


def test_the_update_ends_in_the_nearest_rotation() -> None:
    w = torch.linalg.qr(torch.randn(6, 6, generator=seeded(0)))[0] * torch.linspace(0.3, 1.6, 6)
    u, _, vt = torch.linalg.svd(w)
    for _ in range(1000):
        w = toward_rotation(w, 0.01)
    assert torch.allclose(w.T @ w, torch.eye(6), atol=1e-4)
    assert torch.allclose(w, u @ vt, atol=1e-4)
