from pathlib import Path

import pytest
import scipy.linalg
import torch
from pydantic import ValidationError

from babelray.errors import DataError
from babelray.mapping.least_squares import least_squares
from babelray.mapping.linear import LinearMapping, unit_centred
from babelray.mapping.method import MAPPING_METHODS
from babelray.mapping.procrustes import ProcrustesConfig, procrustes
from babelray.recipe.align import AlignConfig
from babelray.storage import Location


def world(noise: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A space, and the same space turned by a known rotation."""
    torch.manual_seed(seed)
    half = torch.nn.functional.normalize(torch.randn(100, 12))
    target = torch.cat([half, -half])  # of length one and centred already
    rotation = torch.linalg.qr(torch.randn(12, 12)).Q
    return target @ rotation.T + noise * torch.randn(200, 12), target, rotation


def every(step: int, count: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(0, count, step), torch.arange(0, count, step)


def test_recovers_a_known_rotation() -> None:
    source, target, rotation = world(noise=0)
    mapping, same = procrustes(source, target, every(1, 100))
    assert torch.allclose(mapping.matrix_DE, rotation, atol=1e-4)
    assert torch.allclose(mapping.transform(source)[100:], target[100:], atol=1e-4), "words it never saw"
    assert torch.allclose(same.transform(target), target, atol=1e-5)


def test_same_as_scipy() -> None:
    source, target, _ = world(noise=0.1)
    rows = every(2)[0]
    turn = procrustes(source, target, every(2))[0].matrix_DE
    x, z = unit_centred(source)[0][rows], unit_centred(target)[0][rows]
    expected, _ = scipy.linalg.orthogonal_procrustes(x.numpy(), z.numpy())
    assert torch.allclose(turn, torch.from_numpy(expected), atol=1e-4)
    assert torch.allclose(turn @ turn.T, torch.eye(12), atol=1e-5)


@pytest.mark.parametrize(("ridge", "shrink_to"), [(0.0, "zero"), (0.3, "zero"), (0.3, "identity")])
def test_least_squares_is_the_minimum(ridge: float, shrink_to: str) -> None:
    source, target, _ = world(noise=0.3)
    mapping, _ = least_squares(source, target, every(2), ridge, shrink_to)
    x, z = (unit_centred(side)[0][::2].double() for side in (source, target))
    found = mapping.matrix_DE.double().requires_grad_()
    held = torch.eye(12, dtype=torch.double) if shrink_to == "identity" else torch.zeros(12, 12, dtype=torch.double)
    ((x @ found - z).square().sum() + ridge * (found - held).square().sum()).backward()
    assert found.grad.abs().max() < 1e-4, "no direction leads further down"


def test_least_squares_between_spaces_of_different_width() -> None:
    source, target, _ = world(noise=0)
    mapping, _ = least_squares(source, target[:, :7].contiguous(), every(1))
    assert mapping.transform(source).shape == (200, 7)
    few, _ = least_squares(source, target, every(50))
    assert torch.isfinite(few.matrix_DE).all(), "fewer pairs than dimensions"


def test_identity_only_normalises() -> None:
    source, _, _ = world(noise=0)
    mapping = LinearMapping.identity(source)
    assert torch.allclose(mapping.transform(source), unit_centred(source)[0])


def test_saved_and_loaded(tmp_path: Path) -> None:
    source, target, _ = world(noise=0.1)
    mapping, _ = procrustes(source, target, every(4))
    mapping.save(Location.parse(tmp_path))
    assert torch.equal(LinearMapping.load(Location.parse(tmp_path)).transform(source), mapping.transform(source))


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "procrustes"},
        {"method": "least-squares"},
        {"method": "rcsls"},
        {"method": "vecmap", "self_learning": False},
        {"method": "vecmap", "patience": 3},
    ],
)
def test_every_method_ends_in_the_space_of_the_hub(settings: dict) -> None:
    source, target, _ = world(noise=0.02)
    mapping = MAPPING_METHODS.parse(settings).fit_to_hub(source, target, every(2), seed=1)
    near = torch.nn.functional.cosine_similarity(mapping.transform(source), unit_centred(target)[0])
    assert near.min() > 0.9


def test_bad_input() -> None:
    method, pair = ProcrustesConfig(), (torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(DataError, match="4 and 5 dimensions"):
        method.fit_to_hub(torch.randn(3, 4), torch.randn(3, 5), pair, 1)
    with pytest.raises(DataError, match="no translation pair"):
        method.fit_to_hub(torch.randn(3, 4), torch.randn(3, 4), (pair[0][:0], pair[1][:0]), 1)
    with pytest.raises(DataError, match="source: the vector of word 2 is not finite"):
        method.fit_to_hub(torch.tensor([[1.0, 2.0], [float("nan"), 1.0]]), torch.randn(3, 2), pair, 1)
    with pytest.raises(DataError, match="target: all vectors are zero"):
        method.fit_to_hub(torch.randn(3, 2), torch.zeros(3, 2), pair, 1)
    with pytest.raises(ValidationError, match=r"procrustes needs a dictionary .* muse, normalisation, vecmap"):
        AlignConfig(dictionary="none")
    with pytest.raises(ValidationError, match="reweight: source"):
        AlignConfig.model_validate({"mapping": {"method": "vecmap", "reweight": "symmetric"}})
