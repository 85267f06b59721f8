import math

import numpy as np
import pytest
import torch
from torch import nn

from babelray.errors import DataError, TrainingError
from babelray.mapping.config import EpochsConfig
from babelray.mapping.criteria import (
    best_epoch,
    check_trainable,
    comparable,
    held_back,
    judge,
    log_singular_values,
    precision,
    semantic,
    structural,
    translations,
)
from babelray.mapping.muse import criterion


def world(words: int = 200, width: int = 6, noise: float = 0.05) -> tuple[torch.Tensor, torch.Tensor]:
    """Two languages in one space; word i translates word i."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(words, width, generator=generator) * torch.linspace(2, 0.5, width)
    return x, x + noise * torch.randn(words, width, generator=generator)


def csls_by_definition(similarity: torch.Tensor, k: int) -> torch.Tensor:
    forward, backward = similarity.topk(k, dim=1).values.mean(1), similarity.topk(k, dim=0).values.mean(0)
    return 2 * similarity - forward[:, None] - backward


@pytest.mark.parametrize("similarity", ["cosine", "distance"])
def test_the_most_confident_translations_by_definition(similarity: str) -> None:
    x, y = world(noise=0.4)
    table = -torch.cdist(x, y).square() if similarity == "distance" else torch.cosine_similarity(x[:, None], y, dim=2)
    csls = csls_by_definition(table[:100, :100], 7)
    best = csls.max(1).values.topk(30).indices
    rows, columns = translations(x, y, csls=7, words=100, pairs=30, similarity=similarity)
    assert rows.tolist() == best.tolist()
    assert columns.tolist() == csls.argmax(1)[best].tolist()


def test_products_are_the_similarities() -> None:
    x, y = world()
    a, b = comparable(x, y, "distance")
    assert torch.allclose(a @ b.T, -torch.cdist(x, y).square(), atol=1e-4)
    a, b = comparable(x, y, "cosine")
    assert torch.allclose(a @ b.T, torch.cosine_similarity(x[:, None], y, dim=2), atol=1e-5)


def test_semantic_is_the_criterion_of_muse_and_for_unit_vectors_the_same_by_distance() -> None:
    x, y = world(noise=0.3)
    assert semantic(x, y, csls=10, words=200) == pytest.approx(criterion(x, y, 10, 200), abs=1e-6)
    x, y = nn.functional.normalize(x), nn.functional.normalize(y)
    assert semantic(x, y, similarity="distance") == pytest.approx(semantic(x, y), abs=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "distance"])
def test_both_criteria_say_that_the_right_mapping_is_better(similarity: str) -> None:
    x, y = world()
    turn = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1))).Q
    squeezed = x * torch.tensor([1.0, 1, 1, 1, 0.2, 3])
    assert semantic(x, y, similarity=similarity) > semantic(x @ turn, y, similarity=similarity) + 0.01
    assert structural(x, y, similarity=similarity) > structural(squeezed, y, similarity=similarity) + 0.5


def test_structural_by_definition() -> None:
    x, y = world(noise=0.3)
    rows, columns = translations(x, y)
    spectra = [np.linalg.svd(side.double().numpy(), compute_uv=False) for side in (x[rows], y[columns])]
    assert structural(x, y) == pytest.approx(-np.square(np.log(spectra[0]) - np.log(spectra[1])).sum())
    assert structural(x, x) == pytest.approx(0, abs=1e-9)


def test_a_spectrum_that_ends_in_zeros_is_cut() -> None:
    flat = torch.cat([torch.randn(50, 3), torch.zeros(50, 2)], 1)
    values = log_singular_values(flat)
    assert values.isfinite().all() and (values[3:] - values[0]).tolist() == pytest.approx([math.log(1e-6)] * 2)


def test_precision_of_validation_pairs() -> None:
    x, _ = world(words=50)
    assert precision(x, x) == 1
    assert precision(x, x.roll(1, 0)) == 0
    twice = torch.cat([x[:5], x[:5]])
    assert precision(twice, twice) == 1, "either of two equal translations is right"


def test_pairs_are_held_back_for_validation_alone() -> None:
    pairs = (torch.arange(100), torch.arange(100, 200))
    config = EpochsConfig(select="validation", held_back=0.2)
    learned, judged = held_back(pairs, config, torch.Generator().manual_seed(0))
    assert len(judged[0]) == 20 and sorted([*learned[0].tolist(), *judged[0].tolist()]) == list(range(100))
    assert torch.equal(judged[1], judged[0] + 100) and torch.equal(learned[1], learned[0] + 100)
    assert len(held_back(pairs, EpochsConfig(), torch.Generator())[1][0]) == 0


def test_the_criterion_that_the_config_names() -> None:
    x, y = world()
    pairs = (torch.arange(30), torch.arange(30))
    value = {
        name: judge(lambda v: v, x, y, EpochsConfig(select=name), "cosine", pairs)(7)
        for name in ("semantic", "structural", "validation", "last")
    }
    expected = {"semantic": semantic(x, y), "structural": structural(x, y), "last": 7}
    assert value == expected | {"validation": precision(x[:30], y[:30])}


class Counter(nn.Module):
    """A network whose weight is the number of the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def train_once(self, losses: dict[int, float] | None = None) -> float:
        self.weight.data += 1
        return (losses or {}).get(int(self.weight), 1.0)


@pytest.mark.parametrize(("values", "kept"), [([1, 3, 2], 2), ([3, 2, 1], 1), ([1, 2, 3], 3), ([5, math.nan, 9], 1)])
def test_the_best_epoch_is_kept(values: list[float], kept: int) -> None:
    network, told = Counter(), []
    best_epoch(network, 3, network.train_once, lambda epoch: values[epoch - 1], lambda *what: told.append(what))
    assert int(network.weight) == kept
    assert told == [(epoch, value) for epoch, value in enumerate(values, 1) if math.isfinite(sum(values[:epoch]))]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_training_that_diverges_keeps_the_last_good_state(loss: float) -> None:
    network = Counter()
    best_epoch(network, 9, lambda: network.train_once({3: loss}), float)
    assert int(network.weight) == 2
    with pytest.raises(TrainingError, match=r"(?s)first epoch.*learning_rate"):
        best_epoch(Counter(), 9, lambda: loss, float)


def test_weights_that_are_not_finite_end_it_too() -> None:
    network = Counter()

    def train() -> float:
        network.weight.data += 1 if network.weight < 2 else math.nan
        return 1.0

    best_epoch(network, 9, train, float)
    assert int(network.weight) == 2


def test_what_no_network_can_learn_from() -> None:
    x, y = world()
    check_trainable(x, y, 6, "pairs")
    with pytest.raises(DataError, match="5 pairs are fewer than the 6 dimensions"):
        check_trainable(x, y, 5, "pairs")
    with pytest.raises(DataError, match="target: all vectors are the same"):
        check_trainable(x, torch.ones(9, 6), 9, "pairs")
    with pytest.raises(DataError, match="one dimension"):
        check_trainable(x[:, :1], y[:, :1], 9, "pairs")
