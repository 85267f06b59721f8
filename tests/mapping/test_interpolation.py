"""Two views of a word in one space: the turn against closed forms and random rivals, equation 1 by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from babelray.errors import DataError
from babelray.mapping.interpolation import interpolate, rectangular_procrustes


def turned(wide: int, narrow: int, seed: int) -> torch.Tensor:
    """A random matrix (narrow, wide) with orthonormal rows."""
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(wide, narrow, generator=generator, dtype=torch.double))[0].T


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(0, 5))
def test_a_turn_is_found_again_and_no_other_is_nearer(seed: int, narrow: int, more: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    static = functional.normalize(torch.randn(40, narrow, generator=generator, dtype=torch.double))
    true = turned(narrow + more, narrow, seed)
    assert torch.allclose(rectangular_procrustes(static, static @ true), true, atol=1e-8)
    noisy = functional.normalize(static @ true + 0.3 * torch.randn(40, narrow + more, generator=generator))
    found = rectangular_procrustes(static, noisy)
    assert torch.allclose(found @ found.T, torch.eye(narrow, dtype=torch.double), atol=1e-8), "it must not stretch"
    error = (static @ found - noisy).square().sum()
    for rival in range(5):
        other = turned(narrow + more, narrow, seed + 1 + rival)
        assert error <= (static @ other - noisy).square().sum() + 1e-9


def test_equal_widths_give_the_orthogonal_solution() -> None:
    from babelray.mapping.procrustes import rotation

    static, encoded = functional.normalize(torch.randn(30, 5)), functional.normalize(torch.randn(30, 5))
    assert torch.allclose(rectangular_procrustes(static, encoded), rotation(static, encoded), atol=1e-5)


def test_wider_static_vectors_are_cut_without_stretching() -> None:
    static, encoded = torch.randn(50, 8), torch.randn(50, 3)
    found = rectangular_procrustes(static, encoded)
    assert found.shape == (8, 3) and torch.allclose(found.T @ found, torch.eye(3), atol=1e-5)


def test_equation_1_by_hand() -> None:
    static, encoded = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[0.0, 2.0], [5.0, 0.0]])
    found = interpolate(static, torch.eye(2), encoded, 0.25)
    assert torch.allclose(found[0], 0.75 * torch.tensor([0.6, 0.8]) + 0.25 * torch.tensor([0.0, 1.0]))
    assert torch.equal(found[1], torch.tensor([1.0, 0.0])), "a word without a static vector is the encoder's alone"
    assert torch.allclose(interpolate(static, torch.eye(2), encoded, 1.0), functional.normalize(encoded))


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_that_is_none(share: float) -> None:
    with pytest.raises(DataError, match="λ is"):
        interpolate(torch.ones(1, 2), torch.eye(2), torch.ones(1, 2), share)


def test_what_cannot_be_fitted() -> None:
    with pytest.raises(DataError, match="no word of the dictionary"):
        rectangular_procrustes(torch.zeros(0, 2), torch.zeros(0, 2))
    with pytest.raises(DataError, match="cannot be paired"):
        rectangular_procrustes(torch.ones(2, 2), torch.ones(3, 2))
    with pytest.raises(DataError, match="not finite"):
        rectangular_procrustes(torch.tensor([[float("nan"), 1.0]]), torch.ones(1, 2))
