import pytest
import torch
from torch.nn import functional

from babelray.mapping.linear import unit_centred
from babelray.mapping.procrustes import procrustes
from babelray.mapping.rcsls import RcslsConfig, rcsls, rcsls_loss
from babelray.vectors.retrieval import nearest


def world(words: int = 800, width: int = 16, noise: float = 0.8) -> tuple[torch.Tensor, torch.Tensor]:
    """The second space is turned, and stretched differently in each direction: no rotation fits it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(words, width, generator=generator)
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator))[0]
    stretch = torch.linspace(0.3, 1.7, width)
    return x, (x * stretch) @ turn + noise * torch.randn(words, width, generator=generator) * stretch.mean()


def by_definition(w: torch.Tensor, x, z, all_x, all_z, k: int) -> torch.Tensor:
    total = torch.zeros(())
    for a, b in zip(x, z, strict=True):
        total = total - 2 * (a @ w @ b)
        total = total + (all_z @ (a @ w)).topk(k).values.mean() + ((all_x @ w) @ b).topk(k).values.mean()
    return total / len(x)


def test_loss_and_slope_by_definition() -> None:
    x, z = (functional.normalize(side).double() for side in world(40, 6))
    w = torch.randn(6, 6, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    expected = by_definition(w, x[:10], z[:10], x, z, 4)
    (slope,) = torch.autograd.grad(expected, w)
    value, found = rcsls_loss(w.detach(), x[:10], z[:10], x, z, 4)
    assert value == pytest.approx(expected.item())
    assert torch.allclose(found, slope, atol=1e-8)


def accuracy(mappings, x: torch.Tensor, z: torch.Tensor, rows: torch.Tensor) -> float:
    found = nearest(mappings[0].transform(x), mappings[1].transform(z), csls=10)[1].flatten()
    return (found[rows] == rows).float().mean().item()


@pytest.mark.parametrize("spectral", [False, True])
def test_better_than_a_rotation_where_none_fits(spectral: bool) -> None:
    x, z = world()
    train, test = (torch.arange(0, 500),) * 2, torch.arange(500, 800)
    losses: list[float] = []
    config = RcslsConfig(iterations=40, spectral=spectral)
    mappings = rcsls(x, z, train, config, lambda iteration, loss: losses.append(loss))
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0], "the loss never rises"
    trained, turned = (accuracy(found, x, z, test) for found in (mappings, procrustes(x, z, train)))
    assert trained >= turned if spectral else trained > turned + 0.02
    if spectral:
        assert torch.linalg.matrix_norm(mappings[0].matrix_DE, 2) < 1 + 1e-4


def test_fewer_words_than_neighbours() -> None:
    x, z = world(6, 4)
    mapping, _ = rcsls(x, z, (torch.arange(3), torch.arange(3)), RcslsConfig(neighbours=50))
    assert torch.isfinite(mapping.transform(x)).all() and torch.allclose(unit_centred(x)[1], mapping.mean_D)
