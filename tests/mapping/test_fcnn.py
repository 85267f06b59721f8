from pathlib import Path

import pytest
import torch

from babelray.errors import DataError
from babelray.mapping.fcnn import FcnnConfig, fcnn, tanh_network
from babelray.mapping.fitted import load_mapping
from babelray.mapping.least_squares import least_squares
from babelray.mapping.method import fit_mappings
from babelray.storage import Location

PAIRS = (torch.arange(300), torch.arange(300))
SMALL = {"hidden": 64, "epochs": 60, "learning_rate": 3e-3}


def bent() -> tuple[torch.Tensor, torch.Tensor]:
    x = 4 * torch.rand(400, 2, generator=torch.Generator().manual_seed(0)) - 2
    return x, torch.stack([torch.sin(2 * x[:, 0]), x[:, 0] * x[:, 1]], 1)


def test_three_layers_each_followed_by_tanh() -> None:
    network, x = tanh_network(3, 5), torch.randn(4, 3)
    (a, b), (c, d), (e, f) = ((layer.weight, layer.bias) for layer in network if hasattr(layer, "weight"))
    expected = torch.tanh(torch.tanh(torch.tanh(x @ a.T + b) @ c.T + d) @ e.T + f)
    assert torch.allclose(network(x), expected, atol=1e-6)
    assert [a.shape, c.shape, e.shape] == [(5, 3), (5, 5), (3, 5)]


def test_a_bend_is_learned_for_points_it_never_saw(tmp_path: Path) -> None:
    x, y = bent()
    source, target = fit_mappings(x, y, PAIRS, FcnnConfig(normalise="none", **SMALL), seed=1)
    straight = least_squares(x, y, PAIRS, normalise="none")[0]

    def error(mapped: torch.Tensor) -> float:
        return (mapped - target.transform(y))[300:].square().sum(1).mean().item()

    assert error(source.transform(x)) < 0.2 * error(straight.transform(x))
    source.save(Location.parse(tmp_path))
    assert torch.equal(load_mapping(Location.parse(tmp_path)).transform(x), source.transform(x))


def test_targets_far_outside_of_tanh_can_be_reached() -> None:
    x, y = bent()
    near, far = (
        fcnn(scale * x, scale * y, PAIRS, FcnnConfig(**SMALL | {"epochs": 10, "select": "last", "normalise": "none"}))[
            0
        ]
        for scale in (1, 128)
    )
    assert torch.allclose(128 * near.transform(x), far.transform(128 * x), rtol=1e-2, atol=0.1)
    assert far.transform(128 * x).abs().max() > 100


def test_bad_input_is_explained() -> None:
    x, y = torch.randn(30, 4), torch.randn(30, 4)
    with pytest.raises(DataError, match="3 pairs are fewer than the 4 dimensions"):
        fcnn(x, y, (torch.arange(3), torch.arange(3)), FcnnConfig())
    with pytest.raises(DataError, match="target: all vectors are the same"):
        fcnn(x, torch.ones(30, 4), (torch.arange(30), torch.arange(30)), FcnnConfig())
