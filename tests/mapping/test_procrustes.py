from pathlib import Path

import pytest
import scipy.linalg
import torch

from babelray.errors import DataError
from babelray.mapping.procrustes import Procrustes, unit_centred
from babelray.storage import Place


def world(noise: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A space, and the same space turned by a known rotation."""
    torch.manual_seed(seed)
    half = torch.nn.functional.normalize(torch.randn(100, 12))
    target = torch.cat([half, -half])  # of length one and centred already
    rotation = torch.linalg.qr(torch.randn(12, 12)).Q
    return target @ rotation.T + noise * torch.randn(200, 12), target, rotation


def test_recovers_a_known_rotation() -> None:
    source, target, rotation = world(noise=0)
    mapping = Procrustes.fit(source, target, [(i, i) for i in range(100)])
    assert torch.allclose(mapping.rotation_DD, rotation, atol=1e-4)
    assert torch.allclose(mapping.transform(source)[100:], target[100:], atol=1e-4), "words it never saw"


def test_same_as_scipy() -> None:
    source, target, _ = world(noise=0.1)
    pairs = [(i, i) for i in range(0, 200, 2)]
    mapping = Procrustes.fit(source, target, pairs)
    rows = [i for i, _ in pairs]
    expected, _ = scipy.linalg.orthogonal_procrustes(unit_centred(source)[0][rows].numpy(), target[rows].numpy())
    assert torch.allclose(mapping.rotation_DD, torch.from_numpy(expected), atol=1e-4)
    assert torch.allclose(mapping.rotation_DD @ mapping.rotation_DD.T, torch.eye(12), atol=1e-5)


def test_identity_only_normalises() -> None:
    source, _, _ = world(noise=0)
    mapping = Procrustes.identity(source)
    assert torch.allclose(mapping.transform(source), unit_centred(source)[0])


def test_saved_and_loaded(tmp_path: Path) -> None:
    source, target, _ = world(noise=0.1)
    mapping = Procrustes.fit(source, target, [(i, i) for i in range(50)])
    mapping.save(Place.parse(tmp_path))
    assert torch.equal(Procrustes.load(Place.parse(tmp_path)).transform(source), mapping.transform(source))


def test_bad_input() -> None:
    with pytest.raises(DataError, match="4 and 5 dimensions"):
        Procrustes.fit(torch.randn(3, 4), torch.randn(3, 5), [(0, 0)])
    with pytest.raises(DataError, match="no translation pair"):
        Procrustes.fit(torch.randn(3, 4), torch.randn(3, 4), [])
