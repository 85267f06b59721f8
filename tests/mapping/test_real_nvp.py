import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from babelray.commands import app as cli
from babelray.errors import DataError, TrainingError
from babelray.mapping.fitted import load_mapping
from babelray.mapping.flow import FlowPair
from babelray.mapping.linear import unit_centred
from babelray.mapping.method import MAPPING_METHODS, fit_mappings
from babelray.mapping.nonlinear import NonlinearMapping
from babelray.mapping.procrustes import rotation
from babelray.mapping.real_nvp import RealNvpConfig, density_loss, real_nvp, start_mapping
from babelray.recipe.align import AlignConfig
from babelray.storage import Location
from babelray.vectors.formats import write_vectors
from babelray.vectors.word_vectors import WordVectors

SMALL = {"layers": 4, "hidden": 32, "learning_rate": 3e-3, "batch_size": 32, "epochs": 20}
PAIRS = (torch.arange(200), torch.arange(200))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def flows(width: int, seed: int = 0, spread: float = 0.3) -> FlowPair:
    """Flows that are far from the identity."""
    network = FlowPair(width, layers=4, hidden=16, depth=2)
    for number, part in enumerate(network.parameters()):
        part.data = spread * torch.randn(part.shape, generator=seeded(1000 * seed + number))
    return network


def bent(count: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a plane, and the same on a plane that waves."""
    x = 2 * torch.randn(count, 2, generator=seeded(seed))
    return x, x + 1.2 * torch.sin(1.5 * x.flip(1)) + torch.tensor([1.0, -0.5])


@pytest.mark.parametrize("width", [2, 3, 16, 101])
def test_there_and_back_again(width: int) -> None:
    network, x = flows(width, spread=0.3 if width < 10 else 0.1), torch.randn(50, width, generator=seeded(1))
    with torch.no_grad():
        assert (network(x) - x).abs().max() > 0.3, "it does something"
        assert torch.allclose(network.back(network(x)), x, atol=1e-5)
        assert torch.allclose(network(network.back(x)), x, atol=1e-5)


def test_the_start_is_the_identity() -> None:
    network, x = FlowPair(5, 3, 8, 2), torch.randn(20, 5)
    assert torch.equal(network(x), x)


@pytest.mark.parametrize("width", [2, 5])
def test_the_determinant_is_that_of_autograd(width: int) -> None:
    network = flows(width).double()
    for flow in (network.source, network.target):
        transform = flow.transform()
        for x in torch.randn(10, width, dtype=torch.double, generator=seeded(2)):
            expected = torch.linalg.slogdet(torch.autograd.functional.jacobian(transform, x)).logabsdet
            assert transform.call_and_ladj(x)[1].item() == pytest.approx(expected.item(), abs=1e-8)


def test_likelihood_integrates_to_one() -> None:
    network = flows(2)
    axis = torch.linspace(-12, 12, 300)
    grid = torch.cartesian_prod(axis, axis)
    for number in (0, 1):
        with torch.no_grad():
            zero = torch.zeros_like(grid)
            both = network.both_ways(grid, zero) if number == 0 else network.both_ways(zero, grid)
            other = (network.target, network.source)[number]().log_prob(zero[:1])
            density = (both[2] - other).exp()
        assert density.sum().item() * (axis[1] - axis[0]).item() ** 2 == pytest.approx(1, abs=1e-3)
        assert density.max() > 2 / (2 * torch.pi), "it is not the Gaussian itself"


def test_the_loss_by_definition() -> None:
    """The likelihoods against zuko's own."""
    network, x, y = flows(3), torch.randn(7, 3, generator=seeded(3)), torch.randn(7, 3, generator=seeded(4))
    distance = (network(x) - y).square().sum(1) + (network.back(y) - x).square().sum(1)
    density = network.source().log_prob(x) + network.target().log_prob(y)
    expected = (distance - 0.01 * density).mean() / 3
    assert density_loss(network, x, y, 0.01).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_bend_that_no_linear_mapping_undoes_is_undone_for_points_it_never_saw() -> None:
    x, y = bent()
    errors = {}
    for name, settings in (("least-squares", {}), ("real-nvp", SMALL | {"select": "last"})):
        method = MAPPING_METHODS.parse({"method": name, "normalise": "none"} | settings)
        source, target = fit_mappings(x, y, PAIRS, method, seed=1)
        errors[name] = (source.transform(x) - target.transform(y))[200:].square().sum(1).mean().item()
    assert errors["real-nvp"] < 0.5 * errors["least-squares"]


def test_density_is_modelled_too() -> None:
    """A likelihood that counts makes the words of both languages likelier than a Gaussian where they are."""
    generator = seeded(0)
    x = torch.randn(300, 2, generator=generator).abs().sqrt()
    y = x + 0.1 * torch.randn(300, 2, generator=generator)
    start, seen_x, seen_y = start_mapping(x, y, None, RealNvpConfig(normalise="none", **SMALL), seed=1)
    config = RealNvpConfig(**SMALL | {"likelihood": 1.0, "epochs": 15, "select": "last", "normalise": "none"})
    learned = real_nvp(x, y, PAIRS, config)[0]
    for flow, side in (("source", seen_x), ("target", seen_y)):
        with torch.no_grad():
            before, after = (getattr(one.network, flow)().log_prob(side[200:]).mean() for one in (start, learned))
        assert after > before + 0.3


def test_the_flows_see_entries_of_about_one_and_give_back_the_lengths_of_the_space() -> None:
    x, y = bent()
    for normalise in ("unit", "centred", "none"):
        mapping, seen_x, seen_y = start_mapping(50 * x, 50 * y, None, RealNvpConfig(normalise=normalise), seed=1)
        assert torch.cat([seen_x, seen_y]).square().mean().item() == pytest.approx(1, abs=1e-4)
        expected = {"unit": unit_centred(x)[0], "centred": 50 * (x - x.mean(0)), "none": 50 * x}[normalise]
        assert torch.allclose(mapping.transform(50 * x), expected, atol=1e-4)


def test_start_at_the_best_rotation() -> None:
    x = torch.randn(300, 8, generator=seeded(0)) * torch.linspace(2, 0.5, 8)
    turn = torch.linalg.qr(torch.randn(8, 8, generator=seeded(1))).Q
    y = x @ turn
    config = RealNvpConfig(start="rotation", epochs=1, learning_rate=1e-6, hidden=16)
    mapping = real_nvp(x, y, PAIRS, config)[0]
    expected = rotation(unit_centred(x)[0][:200], unit_centred(y)[0][:200])
    assert torch.allclose(mapping.preparation.matrix_DE, expected, atol=1e-5)
    assert torch.allclose(mapping.transform(x), unit_centred(y)[0], atol=0.02)


def test_the_epoch_that_is_kept() -> None:
    x, y = bent(120)
    pairs = (torch.arange(100), torch.arange(100))
    for select in ("semantic", "structural", "validation", "last"):
        epochs: list[tuple[int, float]] = []
        config = RealNvpConfig(**SMALL | {"epochs": 4, "select": select, "normalise": "none"})
        kept = real_nvp(x, y, pairs, config, 1, lambda *what: epochs.append(what))[0]  # noqa: B023
        best = max(epochs, key=lambda epoch: epoch[1])[0]
        shorter = config.model_copy(update={"epochs": best})
        assert torch.equal(kept.transform(x), real_nvp(x, y, pairs, shorter, 1)[0].transform(x)), select


def test_the_same_seed_gives_the_same_bits_and_no_global_randomness() -> None:
    x, y = bent(100)
    pairs, config = (torch.arange(50), torch.arange(50)), RealNvpConfig(**SMALL | {"epochs": 2})
    state = torch.random.get_rng_state()
    first, again, other = (real_nvp(x, y, pairs, config, seed)[0].transform(x) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("normalise", ["unit", "centred"])
def test_saved_and_loaded_and_nothing_pickled(tmp_path: Path, normalise: str) -> None:
    x, y = bent(100)
    pairs = (torch.arange(50), torch.arange(50))
    mapping = real_nvp(x, y, pairs, RealNvpConfig(**SMALL | {"epochs": 2, "normalise": normalise}))[0]
    mapping.save(Location.parse(tmp_path / "mapping"))
    assert sorted(path.name for path in (tmp_path / "mapping").iterdir()) == ["mapping.json", "mapping.safetensors"]
    loaded = load_mapping(Location.parse(tmp_path / "mapping"))
    assert isinstance(loaded, NonlinearMapping)
    new = torch.randn(10, 2, generator=seeded(9))
    assert torch.equal(loaded.transform(new), mapping.transform(new))
    with pytest.raises(DataError, match="there is no mapping at"):
        load_mapping(Location.parse(tmp_path / "nothing"))


def test_two_files_through_the_command(tmp_path: Path) -> None:
    x = torch.randn(150, 6, generator=seeded(0))
    y = x + 0.3 * torch.sin(3 * x) + 0.05 * torch.randn(150, 6, generator=seeded(1))
    for name, matrix in (("a", x), ("b", y)):
        words = [f"{name}{i}" for i in range(150)]
        write_vectors(WordVectors(words, matrix, [1] * 150), Location.parse(tmp_path / f"{name}.vec"))
    (tmp_path / "train.txt").write_text("".join(f"a{i} b{i}\n" for i in range(100)))
    (tmp_path / "test.txt").write_text("".join(f"a{i} b{i}\n" for i in range(100, 150)))
    files = [f"--{key}={tmp_path / name}" for key, name in (("source", "a.vec"), ("target", "b.vec"), ("out", "out"))]
    dictionaries = [f"--dictionary={tmp_path / 'train.txt'}", f"--test={tmp_path / 'test.txt'}"]
    overrides = ["epochs=5", "hidden=16", "learning_rate=0.001"]
    result = CliRunner().invoke(cli.app, ["align", *files, *dictionaries, "--method", "real-nvp", *overrides])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "out/scores.json").read_text())["bli"]["p1"] > 0.9
    mapped = load_mapping(Location.parse(tmp_path / "out/mapping/source")).transform(x)
    assert (mapped - unit_centred(x)[0]).abs().max() > 0.01


def test_to_the_hub_where_the_hub_stays() -> None:
    x, y = bent(100)
    method = RealNvpConfig(**SMALL | {"epochs": 1})
    mapping = method.fit_to_hub(x, y, (torch.arange(50), torch.arange(50)), seed=1)
    assert isinstance(mapping, NonlinearMapping)
    for wrong in ({"joint": 2}, {"through": {"af": "nl"}}):
        with pytest.raises(ValueError, match="need a linear method, which real-nvp is not"):
            AlignConfig(mapping="real-nvp", **wrong)
    with pytest.raises(ValueError, match="length 1"):
        AlignConfig(mapping={"method": "procrustes", "normalise": "none"})
    with pytest.raises(ValueError, match="vecmap needs normalise: unit"):
        MAPPING_METHODS.parse({"method": "vecmap", "normalise": "centred"})


def test_bad_input_is_explained() -> None:
    x, y = bent(100)
    config = RealNvpConfig(**SMALL | {"epochs": 2})
    pairs = (torch.arange(50), torch.arange(50))
    with pytest.raises(DataError, match="1 pairs are fewer than the 2 dimensions"):
        fit_mappings(x, y, (torch.tensor([3]), torch.tensor([3])), config, 1)
    with pytest.raises(DataError, match="needs a dictionary"):
        fit_mappings(x, y, None, config, 1)
    with pytest.raises(DataError, match="source: all vectors are the same"):
        fit_mappings(torch.ones(100, 2), y, pairs, config, 1)
    with pytest.raises(DataError, match="vector of word 8 is not finite"):
        fit_mappings(x, torch.cat([y[:7], torch.full((1, 2), float("nan")), y[8:]]), pairs, config, 1)
    wild = RealNvpConfig(**SMALL | {"learning_rate": 1e30})
    with pytest.raises(TrainingError, match=r"(?s)diverged.*learning_rate"):
        fit_mappings(x, y, pairs, wild, 1)
