import math

import pytest
import torch
from torch import nn

from babelray.errors import DataError, TrainingError
from babelray.mapping.criteria import precision, semantic, structural
from babelray.mapping.epochs import best_epoch, check_trainable, epoch_scorer, split_held_out
from babelray.mapping.fcnn import FcnnConfig


def world(words: int = 200, width: int = 6, noise: float = 0.05) -> tuple[torch.Tensor, torch.Tensor]:
    """Two languages in one space; word i translates word i."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(words, width, generator=generator) * torch.linspace(2, 0.5, width)
    return x, x + noise * torch.randn(words, width, generator=generator)


def test_pairs_are_held_out_for_validation_alone() -> None:
    pairs = (torch.arange(100), torch.arange(100, 200))
    config = FcnnConfig(select="validation", held_out=0.2)
    learned, judged = split_held_out(pairs, config, torch.Generator().manual_seed(0))
    assert len(judged[0]) == 20 and sorted([*learned[0].tolist(), *judged[0].tolist()]) == list(range(100))
    assert torch.equal(judged[1], judged[0] + 100) and torch.equal(learned[1], learned[0] + 100)
    assert len(split_held_out(pairs, FcnnConfig(), torch.Generator())[1][0]) == 0


def test_the_criterion_that_the_config_names() -> None:
    x, y = world()
    pairs = (torch.arange(30), torch.arange(30))
    value = {
        name: epoch_scorer(lambda v: v, x, y, FcnnConfig(select=name), "cosine", pairs)(7)
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
    network, progress = Counter(), []
    best_epoch(network, 3, network.train_once, lambda epoch: values[epoch - 1], lambda *what: progress.append(what))
    assert int(network.weight) == kept
    assert progress == [(epoch, value) for epoch, value in enumerate(values, 1) if math.isfinite(sum(values[:epoch]))]


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
