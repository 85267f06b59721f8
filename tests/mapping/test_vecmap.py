import numpy as np
import pytest
import scipy.linalg
import torch

from babelray.mapping.linear import unit_centred
from babelray.mapping.procrustes import rotation
from babelray.mapping.vecmap import VecMapConfig, all_steps, self_learn, similarity_dictionary, vecmap
from babelray.vectors.retrieval import nearest


def world(words: int = 600, width: int = 12, noise: float = 0.1, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A space with an uneven spread, and the same turned, with noise; word i translates word i."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(words, width, generator=generator) * torch.linspace(0.3, 2, width)
    x += 0.5 * torch.randn(words, width, generator=generator).abs() ** 3  # not symmetric: a turn can be told
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator))[0]
    return x, x @ turn + noise * torch.randn(words, width, generator=generator)


def accuracy(mappings, x: torch.Tensor, z: torch.Tensor) -> float:
    found = nearest(mappings[0].transform(x), mappings[1].transform(z), csls=10)[1].flatten()
    return (found == torch.arange(len(x))).float().mean().item()


def test_rotation_is_procrustes() -> None:
    x, z = (side.double() for side in world())
    expected, _ = scipy.linalg.orthogonal_procrustes(x.numpy(), z.numpy())
    assert np.allclose(rotation(x, z).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("reweight", ["symmetric", "source", "none"])
def test_steps_by_definition(reweight: str) -> None:
    x, z = (unit_centred(side)[0].double().numpy() for side in world(80))
    found = all_steps(torch.from_numpy(x), torch.from_numpy(z), reweight)
    wx, wz = (np.real(scipy.linalg.fractional_matrix_power(side.T @ side, -0.5)) for side in (x, z))
    u, s, vt = np.linalg.svd((x @ wx).T @ (z @ wz))
    a, b = {"symmetric": (0.5, 0.5), "source": (1, 0), "none": (0, 0)}[reweight]
    mapped_x = x @ wx @ u @ np.diag(s**a) @ u.T @ np.linalg.inv(wx) @ u
    mapped_z = z @ wz @ vt.T @ np.diag(s**b) @ vt @ np.linalg.inv(wz) @ vt.T
    # The sign of a singular vector is free, the same one on both sides.
    assert np.allclose(
        mapped_x @ mapped_z.T,
        x @ found.source_DE.double().numpy() @ found.target_DE.double().numpy().T @ z.T,
        atol=1e-5,
    )
    if reweight == "source":
        target = found.target_DE.double()
        assert torch.allclose(target.T @ target, torch.eye(12).double(), atol=1e-5), "the target is only turned"


def test_fewer_dimensions_and_a_space_that_the_pairs_do_not_span() -> None:
    x, z = (unit_centred(side)[0] for side in world(100))
    assert all_steps(x, z, "symmetric", 5).source_DE.shape == (12, 5)
    few = all_steps(x[:6], z[:6], "symmetric")
    assert torch.isfinite(few.source_DE).all() and torch.isfinite(few.target_DE).all()


def test_supervised_finds_words_it_was_not_told() -> None:
    x, z = world(noise=0.2)
    some = torch.arange(0, 600, 6)
    config = VecMapConfig(self_learning=False)
    assert accuracy(vecmap(x, z, (some, some), config), x, z) > 0.9


def test_self_learning_grows_a_small_dictionary() -> None:
    x, z = world(noise=0.3)
    seed = torch.arange(12)
    supervised = accuracy(vecmap(x, z, (seed, seed), VecMapConfig(self_learning=False)), x, z)
    steps: list[tuple[float, float]] = []
    config = VecMapConfig(patience=5, reweight="none")
    learned = vecmap(
        x, z, (seed, seed), config, on_iteration=lambda i, keep, objective: steps.append((keep, objective))
    )
    assert accuracy(learned, x, z) > max(0.8, supervised)
    assert steps[0][0] == 0.1 and steps[-1][0] == 1 and steps[-1][1] > steps[0][1]


def test_unsupervised() -> None:
    x, z = world(noise=0.02)
    right = similarity_dictionary(unit_centred(x)[0], unit_centred(z)[0])
    assert (right[0] == right[1]).float().mean() > 0.2, "many of the first pairs are right"
    for reweight in ("symmetric", "source"):
        assert accuracy(vecmap(x, z, None, VecMapConfig(patience=5, reweight=reweight)), x, z) > 0.9


def test_the_same_seed_gives_the_same_dictionary() -> None:
    x, z = (unit_centred(side)[0] for side in world(200))
    seed = torch.arange(20)
    config = VecMapConfig(max_iterations=6)
    first, again, other = (self_learn(x, z, (seed, seed), config, number) for number in (1, 1, 2))
    assert torch.equal(first[1], again[1]) and not torch.equal(first[1], other[1])
