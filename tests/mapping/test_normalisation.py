from pathlib import Path

import pytest
import torch

from babelray.errors import DataError
from babelray.mapping.fitted import load_mapping
from babelray.mapping.linear import unit_centred
from babelray.mapping.method import fit_mappings
from babelray.mapping.normalisation import NormalisationConfig, normalisation, standardisation
from babelray.storage import Location
from babelray.vectors.retrieval import nearest


def world() -> tuple[torch.Tensor, torch.Tensor]:
    """The same words, elsewhere and spread differently in every dimension."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 10, generator=generator)
    stretch, shift = torch.logspace(-1, 1, 10), 5 * torch.randn(10, generator=generator)
    return x, x * stretch + shift


def test_mean_and_variance() -> None:
    x, y = world()
    for mapping, side in zip(normalisation(x, y), (x, y), strict=True):
        mapped = mapping.transform(side)
        assert torch.allclose(mapped.mean(0), torch.zeros(10), atol=1e-5)
        assert torch.allclose(mapped.var(0, correction=0), torch.ones(10), atol=1e-4)


def test_what_differs_by_mean_and_variance_alone_is_brought_together(tmp_path: Path) -> None:
    x, y = world()
    source, target = fit_mappings(x, y, None, NormalisationConfig(), seed=1)
    assert torch.allclose(source.transform(x), target.transform(y), atol=1e-4)
    target.save(Location.parse(tmp_path))
    assert torch.equal(load_mapping(Location.parse(tmp_path)).transform(y[:3]), target.transform(y[:3]))


def test_to_the_hub() -> None:
    """The hub has length 1 there, so what it needs is to be round."""
    generator = torch.Generator().manual_seed(1)
    hub = torch.randn(400, 10, generator=generator)
    own = hub * torch.linspace(0.2, 3, 10) + torch.linspace(-2, 2, 10)
    seen = unit_centred(hub)[0]
    mapping = NormalisationConfig().fit_to_hub(own, hub, None, seed=1)
    mapped = mapping.transform(own)
    assert torch.allclose(mapped.std(0), seen.std(0), atol=1e-5)
    assert (nearest(mapped, seen)[1].flatten() == torch.arange(400)).float().mean() > 0.99


def test_a_dimension_without_variance_becomes_zero_and_one_point_is_an_error() -> None:
    x = torch.randn(20, 3)
    x[:, 1] = 4.0
    mapped = standardisation(x).transform(x)
    assert torch.equal(mapped[:, 1], torch.zeros(20)) and mapped.isfinite().all()
    with pytest.raises(DataError, match="are the same"):
        standardisation(torch.ones(20, 3))
