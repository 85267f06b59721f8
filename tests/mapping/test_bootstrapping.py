from typing import Any

import numpy as np
import pytest
import torch

from babelray.errors import TrainingError
from babelray.mapping import muse as module
from babelray.mapping.adversarial_rotation import discriminator, train_epoch
from babelray.mapping.bootstrapping import (
    BootstrapConfig,
    Constraint,
    bootstrap,
    correlation,
    cross_correlation,
    graph_structure,
)
from babelray.mapping.gan_real_nvp import GanRealNvpConfig, gan_real_nvp
from babelray.mapping.linear import LinearMapping
from babelray.mapping.method import MAPPING_METHODS, fit_mappings
from babelray.mapping.muse import MuseConfig
from babelray.mapping.nonlinear import NonlinearMapping
from babelray.mapping.procrustes import procrustes


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def turn(width: int, angle: float) -> torch.Tensor:
    skew = torch.randn(width, width, generator=seeded(7))
    skew = skew - skew.T
    return torch.matrix_exp(skew / torch.linalg.matrix_norm(skew, 2) * angle)


def turned(angle: float, noise: float = 0.05, words: int = 300) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A skewed space, the same turned by so much, and by what; word i translates word i."""
    x = -torch.rand(words, 6, generator=seeded(0)).log() * torch.linspace(1.5, 0.5, 6)
    x = x - x.mean(0)
    true = turn(6, angle)
    return x, x @ true + noise * torch.randn(words, 6, generator=seeded(1)), true


def test_correlation_is_numpys() -> None:
    x, y = torch.randn(40, 3, generator=seeded(0)) + 5, torch.randn(40, 3, generator=seeded(1)) - 2
    expected = [np.corrcoef(x[:, i], y[:, i])[0, 1] for i in range(3)]
    assert correlation(x, y).tolist() == pytest.approx(expected, abs=1e-5)
    assert cross_correlation(x, y).item() == pytest.approx(sum((r - 1) ** 2 for r in expected), abs=1e-4)
    assert correlation(torch.ones(40, 3), y).tolist() == [0, 0, 0], "no variance, no correlation, no NaN"


def test_graph_structure_by_definition() -> None:
    x, y = torch.randn(5, 3, generator=seeded(0)), torch.randn(5, 3, generator=seeded(1))
    cells = [(x[i] @ x[j] - y[i] @ y[j]).item() ** 2 for i in range(5) for j in range(5)]
    assert graph_structure(x, y).item() == pytest.approx(sum(cells) / 25 / 3, rel=1e-5)


def test_equal_in_distribution_is_not_equal() -> None:
    """The paper's example: Y uniform on (−1, 1), Ỹ = −Y; the two conditions of Prop. 1 fail as they should."""
    y = torch.linspace(-1, 1, 101)[:, None]
    assert torch.allclose((-y).sort(0).values, y, atol=1e-6), "the same distribution"
    assert correlation(-y, y).item() == pytest.approx(-1), "(ii) fails"
    assert cross_correlation(-y, y).item() == pytest.approx(4)
    assert torch.linalg.lstsq(-y, y).solution.item() == pytest.approx(-1), "(i) fails: U < 0"
    assert cross_correlation(y, y).item() == pytest.approx(0, abs=1e-9)


def test_condition_two_makes_equal_in_distribution_equal() -> None:
    """Correlation 1 alone allows a stretch and a shift; equal means and variances leave none."""
    y = torch.randn(200, 4, generator=seeded(0)) * torch.tensor([1.0, 3, 0.2, 5])
    other = y * torch.tensor([2.0, 0.5, 9, 1]) + torch.tensor([1.0, -1, 4, 0])
    assert cross_correlation(other, y).item() == pytest.approx(0, abs=1e-6)
    same = (other - other.mean(0)) / other.std(0) * y.std(0) + y.mean(0)
    assert torch.allclose(same, y, atol=1e-4)


def test_condition_one_leaves_what_condition_two_does_not() -> None:
    """U ≥ 0 that swaps components which are distributed alike; and any rotation has the graph of what it turned."""
    y = torch.randn(4000, 2, generator=seeded(0))
    swap = torch.tensor([[0.0, 1], [1, 0]])
    assert (y @ swap).mean(0).tolist() == pytest.approx(y.mean(0).tolist(), abs=0.05)
    for u in (swap, turn(2, 1.0)):
        assert graph_structure((y @ u)[:100], y[:100]).item() == pytest.approx(0, abs=1e-6)
        assert cross_correlation(y @ u, y) > 0.1


def test_a_constraint_is_of_pairs_that_are_drawn_and_is_weighted() -> None:
    x, y = torch.randn(50, 3, generator=seeded(0)), torch.randn(60, 3, generator=seeded(1))
    pairs = (torch.tensor([3, 9, 40]), torch.tensor([50, 2, 7]))
    for name, g in (("graph", graph_structure), ("cross-correlation", cross_correlation)):
        config = BootstrapConfig(constraint=name, weight=2.5, batch_size=2)
        found = Constraint(pairs, config)(lambda v: 3 * v, x, y, seeded(4))
        drawn = torch.randint(3, (2,), generator=seeded(4))
        assert found.item() == pytest.approx(2.5 * g(3 * x[pairs[0][drawn]], y[pairs[1][drawn]]).item())


def test_muse_takes_the_slope_of_the_constraint() -> None:
    x, y, _ = turned(0.5, words=40)
    config = MuseConfig(steps=1, batch_size=4, orthogonality=0, hidden=5)
    constraint = Constraint((torch.arange(40), torch.arange(40)), BootstrapConfig(weight=0.7, batch_size=40))
    start = turn(6, 0.2)
    drawn: list[tuple[torch.Tensor, ...]] = []

    def noted(function: Any, *sides: Any) -> torch.Tensor:
        rows = torch.randint(40, (40,), generator=sides[-1])
        drawn.append((rows,))
        return 0.7 * cross_correlation(function(sides[0][rows]), sides[1][rows])

    free, pulled, plain = (
        train_epoch((x, y), start, discriminator(6, 5, seeded(2)), 0.1, config, seeded(3), given)
        for given in (noted, constraint, None)
    )
    assert torch.allclose(free, pulled), "both draw the same rows"
    w = start.clone().requires_grad_()
    (slope,) = torch.autograd.grad(0.7 * cross_correlation(x[drawn[0][0]] @ w, y[drawn[0][0]]), w)
    assert torch.allclose(pulled - plain, -0.1 * slope, atol=1e-6)
    assert slope.norm() > 0.01


def test_an_iteration_of_procrustes_by_definition() -> None:
    x, y, _ = turned(0.6)
    config = BootstrapConfig(constraint="procrustes", iterations=1, words=100, csls=5)
    found = bootstrap(x, y, LinearMapping.identity(x, "none"), lambda *_: pytest.fail("no game"), config, "none")
    near = -torch.cdist(x[:100], y[:100]).square()
    csls = 2 * near - near.topk(5, dim=1).values.mean(1)[:, None] - near.topk(5, dim=0).values.mean(0)
    forward, backward = csls.argmax(1), csls.argmax(0)
    rows = torch.tensor([i for i in range(100) if backward[forward[i]] == i])
    expected = procrustes(x, y, (rows, forward[rows]), "none")[0]
    assert isinstance(found, LinearMapping)
    assert torch.allclose(found.matrix_DE, expected.matrix_DE, atol=1e-5)


def test_what_it_finds_teaches_it() -> None:
    x, y, true = turned(0.9)
    config = BootstrapConfig(constraint="procrustes", iterations=8)
    iterations: list[tuple[int, int]] = []
    found = bootstrap(
        x, y, LinearMapping.identity(x, "none"), None, config, "none", lambda *what: iterations.append(what)
    )
    assert torch.allclose(found.matrix_DE, true, atol=0.02)
    assert [number for number, _ in iterations] == list(range(1, 9)) and iterations[-1][1] > iterations[0][1] + 20


@pytest.mark.parametrize(("constraint", "share"), [("cross-correlation", 0.5), ("graph", 1.1)])
def test_muse_with_cross_correlation_comes_nearer_and_with_graphs_no_farther(constraint: str, share: float) -> None:
    x, y, true = turned(0.8, words=500)
    settings = {"epochs": 1, "steps": 60, "hidden": 32, "orthogonality": 0.05, "refinements": 0, "normalise": "none"}
    bootstrapping = {"constraint": constraint, "iterations": 4, "batch_size": 64}
    away = {}
    for name, config in (("alone", None), ("bootstrapped", bootstrapping)):
        method = MuseConfig(**settings, bootstrap=config)
        away[name] = (fit_mappings(x, y, None, method, seed=1)[0].matrix_DE - true).norm().item()
    assert away["bootstrapped"] < share * away["alone"]


def test_a_game_of_muse_that_diverges_is_explained() -> None:
    x, y, _ = turned(0.8, words=50)
    config = MuseConfig(epochs=1, steps=5, hidden=8, learning_rate=1e30)
    with pytest.raises(TrainingError, match=r"(?s)muse diverged.*learning_rate"):
        fit_mappings(x, y, None, config, seed=1)


GAN = {
    "layers": 2,
    "hidden": 16,
    "batch_size": 100,
    "epochs": 2,
    "learning_rate": 3e-3,
    "critic_learning_rate": 1e-2,
    "critic_hidden": 16,
    "select": "last",
}


def test_flows_are_pulled_by_the_constraint() -> None:
    """Two round heaps: no critic sees that one is turned, but pairs do."""
    x = torch.randn(200, 2, generator=seeded(0))
    y = x @ turn(2, 0.7)
    pairs, config = (torch.arange(200), torch.arange(200)), GanRealNvpConfig(normalise="none", **GAN | {"epochs": 12})
    constraint = Constraint(pairs, BootstrapConfig(weight=5, batch_size=100))
    alone, pulled = (gan_real_nvp(x, y, None, config, constraint=given)[0].transform(x) for given in (None, constraint))
    assert cross_correlation(pulled, y) < 0.5 * cross_correlation(alone, y)


@pytest.mark.parametrize(
    ("constraint", "kind"),
    [("cross-correlation", NonlinearMapping), ("graph", NonlinearMapping), ("procrustes", LinearMapping)],
)
def test_gan_real_nvp_with_every_constraint(constraint: str, kind: type) -> None:
    x, y, _ = turned(0.2, words=150)
    bootstrapping = BootstrapConfig(constraint=constraint, iterations=2)
    method = GanRealNvpConfig(**GAN | {"epochs": 1}, bootstrap=bootstrapping)
    messages: list[str] = []
    mapping, target = fit_mappings(x, y, None, method, seed=1, notify=messages.append)
    assert isinstance(mapping, kind)
    assert mapping.transform(x).isfinite().all()
    assert [line for line in messages if "bootstrapping" in line][1].startswith("bootstrapping 2, ")
    assert torch.cosine_similarity(mapping.transform(x), target.transform(y)).mean() > 0.8


@pytest.mark.parametrize(("first", "constrained"), [("method", [False, True, True]), ("identity", [True, True])])
def test_where_the_first_pairs_come_from(monkeypatch: pytest.MonkeyPatch, first: str, constrained: list[bool]) -> None:
    """Algorithm 1: every iteration goes on from the mapping of the last; MUSE's own refinements are left out."""
    x, y, _ = turned(0.2, words=100)
    calls: list[Any] = []

    def fake(*given: Any) -> Any:
        source, config, initial, constraint = given[0], given[3], *given[-2:]
        assert config.refinements == 0
        calls.append((initial, constraint))
        return LinearMapping.identity(source).then(torch.eye(6) * (1 + len(calls))), None

    monkeypatch.setattr(module, "muse", fake)
    method = MuseConfig(bootstrap=BootstrapConfig(iterations=2, first=first))
    mapping, _ = fit_mappings(x, y, None, method, seed=1)
    assert [constraint is not None for _, constraint in calls] == constrained
    starts = [initial.matrix_DE[0, 0].item() for initial, _ in calls if initial is not None]
    assert starts == ([2, 3] if first == "method" else [1, 2])
    assert mapping.matrix_DE[0, 0] == 1 + len(calls)


def test_only_methods_without_a_dictionary_can_be_bootstrapped() -> None:
    with_bootstrap = [name for name, method in MAPPING_METHODS.items() if "bootstrap" in method.model_fields]
    assert with_bootstrap == ["gan-real-nvp", "muse"]
