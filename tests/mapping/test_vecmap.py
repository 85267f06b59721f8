from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch

from babelray.mapping.checkpoint import Checkpoint
from babelray.mapping.linear import unit_centred
from babelray.mapping.procrustes import rotation
from babelray.mapping.vecmap import VecMapConfig, all_steps, self_learn, similarity_dictionary, vecmap
from babelray.storage import Location
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


def test_an_interrupted_self_learning_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """The state holds the generator, since each iteration draws which cells are kept."""
    x, z = world(200)
    config = VecMapConfig(patience=2, max_iterations=30)

    def stop(iteration: int, keep: float, objective: float) -> None:
        if iteration == 5:
            raise InterruptedError

    def checkpoint(key: str = "data") -> Checkpoint:
        return Checkpoint(Location.parse(tmp_path / "state.safetensors"), key, every=0)

    whole = vecmap(x, z, None, config)
    with pytest.raises(InterruptedError):
        vecmap(x, z, None, config, 1, stop, checkpoint())
    iterations: list[int] = []
    resumed = vecmap(x, z, None, config, 1, lambda i, keep, objective: iterations.append(i), checkpoint())
    assert iterations[0] == 5 and all(
        torch.equal(a.matrix_DE, b.matrix_DE) for a, b in zip(whole, resumed, strict=True)
    )
    iterations.clear()
    vecmap(x, z, None, config, 1, lambda i, keep, objective: iterations.append(i), checkpoint("other data"))
    assert iterations[0] == 1


def test_it_stops_when_all_cells_bring_the_same_dictionary_again() -> None:
    """One more iteration from there would bring the same mapping, whatever the patience."""
    x, z = world(noise=0.02)
    everything = torch.arange(100)

    def learn(patience: int) -> tuple[torch.Tensor, int]:
        iterations: list[int] = []
        config = VecMapConfig(patience=patience, keep=1.0)
        count = lambda i, keep, objective: iterations.append(i)  # noqa: E731
        mapping = vecmap(x, z, (everything, everything), config, on_iteration=count)
        return mapping[0].matrix_DE, len(iterations)

    (patient, many), (impatient, few) = learn(50), learn(5)
    assert many == few < 50 and torch.equal(patient, impatient)


def test_progress_says_how_long_it_takes_at_least() -> None:
    x, z = world(200)
    texts: list[str] = []
    VecMapConfig(patience=3).fit(x, z, None, 1, texts.append)
    assert texts[0].startswith("iteration 1, ") and "ETA at least" in texts[0] and "10% of the cells" in texts[0]
    config = VecMapConfig()
    assert [config.iterations_after(keep) for keep in (0.1, 0.8, 1.0)] == [200, 50, 0]
