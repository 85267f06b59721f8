"""Every method in worlds with a known answer: a rotation, noise, and spaces that no rotation brings together."""

from __future__ import annotations

import pytest
import torch

from babelray.mapping.method import MAPPING_METHODS, MappingMethod, fit_mappings
from babelray.vectors.retrieval import nearest

pytestmark = pytest.mark.integration  # trains for seconds

WORDS, WIDTH = 600, 16
PAIRS = (torch.arange(200), torch.arange(200))
TESTED = torch.arange(200, WORDS)

SUPERVISED = {
    "procrustes": MAPPING_METHODS.parse("procrustes"),
    "least-squares": MAPPING_METHODS.parse("least-squares"),
    "rcsls": MAPPING_METHODS.parse("rcsls"),
    "vecmap": MAPPING_METHODS.parse({"method": "vecmap", "self_learning": False, "reweight": "symmetric"}),
    "vecmap, self-learning": MAPPING_METHODS.parse({"method": "vecmap", "patience": 3, "reweight": "symmetric"}),
    "muse": MAPPING_METHODS.parse("muse"),
}


def world(noise: float, stretch: float = 0.0, warp: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Words in clusters, seen by two languages: turned, with noise, stretched along axes, or bent.

    Stretched spaces are related by a linear mapping that is no rotation; bent ones by none that is linear.
    """
    generator = torch.Generator().manual_seed(4)
    centres = torch.randn(15, WIDTH, generator=generator)[torch.randint(15, (WORDS,), generator=generator)]
    x = (centres + 0.8 * torch.randn(WORDS, WIDTH, generator=generator)) * torch.linspace(1.5, 0.5, WIDTH)
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator)).Q
    lengths = torch.exp(stretch * torch.randn(WIDTH, generator=generator))
    z = (x * lengths + warp * torch.sin(2 * x)) @ turn
    return x, z + noise * torch.randn(WORDS, WIDTH, generator=generator)


def precision(x: torch.Tensor, z: torch.Tensor, method: MappingMethod, dictionary: tuple | None = PAIRS) -> float:
    """P@1 of words that the mapping never saw."""
    source, target = fit_mappings(x, z, dictionary, method, seed=1)
    found = nearest(source.transform(x)[TESTED], target.transform(z), csls=10, pool_PD=source.transform(x))[1].flatten()
    return (found == TESTED).float().mean().item()


@pytest.mark.parametrize("method", SUPERVISED.values(), ids=SUPERVISED)
def test_a_rotation_is_undone(method: MappingMethod) -> None:
    assert precision(*world(noise=0.0), method) > 0.99


@pytest.mark.parametrize("method", SUPERVISED.values(), ids=SUPERVISED)
def test_noise_costs_some_words_but_not_the_mapping(method: MappingMethod) -> None:
    little, much = (precision(*world(noise=noise), method) for noise in (0.3, 0.8))
    assert 0.9 < little <= 1.0
    assert 0.3 < much < little


@pytest.mark.parametrize("name", ["least-squares", "rcsls", "vecmap"])
def test_methods_that_may_stretch_beat_a_rotation_where_the_spaces_are_stretched(name: str) -> None:
    x, z = world(noise=0.3, stretch=1.6)
    assert precision(x, z, SUPERVISED[name]) > precision(x, z, SUPERVISED["procrustes"]) + 0.05


@pytest.mark.parametrize("method", SUPERVISED.values(), ids=SUPERVISED)
def test_spaces_that_are_bent_are_only_nearly_brought_together(method: MappingMethod) -> None:
    slightly, strongly = (precision(*world(noise=0.2, warp=warp), method) for warp in (0.2, 3.0))
    assert slightly > 0.9 > strongly


def test_wrong_pairs_do_less_harm_to_self_learning_than_to_procrustes() -> None:
    x, z = world(noise=0.4)
    few = (torch.cat([torch.arange(40), torch.arange(40, 80)]), torch.cat([torch.arange(40), torch.arange(300, 340)]))
    assert (
        precision(x, z, SUPERVISED["vecmap, self-learning"], few) > precision(x, z, SUPERVISED["procrustes"], few) + 0.1
    )


def test_without_any_dictionary() -> None:
    method = MAPPING_METHODS.parse({"method": "vecmap", "patience": 10, "reweight": "symmetric"})
    assert precision(*world(noise=0.2), method, None) > 0.9
    assert precision(*world(noise=0.2, warp=3.0), method, None) < 0.5
