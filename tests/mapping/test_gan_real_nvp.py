import copy
import math
from typing import Any

import pytest
import torch

from babelray.errors import DataError, TrainingError
from babelray.mapping.build import map_both
from babelray.mapping.config import AlignConfig, GanRealNvpConfig, MappingConfig
from babelray.mapping.flow import FlowPair
from babelray.mapping.gan_real_nvp import AlmostOrthogonal, Game, critic, gan_real_nvp

SMALL = {
    "layers": 2,
    "hidden": 16,
    "batch": 64,
    "epochs": 8,
    "learning_rate": 3e-3,
    "critic_learning_rate": 1e-2,
    "critic_hidden": 32,
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def world(words: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """The same skewed heap of words, elsewhere and stretched."""
    x = torch.randn(words, 3, generator=seeded(0)).abs() * torch.tensor([1.0, 0.5, 2.0])
    return x, x * torch.tensor([1.3, 0.8, 0.9]) + torch.tensor([2.0, -1.0, 0.0])


def steepness(h: torch.nn.Module) -> float:
    """A bound of what h can rise by along a step of length 1: the product of the layers' largest singular values."""
    return math.prod(torch.linalg.matrix_norm(x.weight.detach(), 2).item() for x in h if hasattr(x, "weight"))


def game(config: GanRealNvpConfig, width: int) -> Game:
    return Game(FlowPair(width, config.layers, config.hidden, config.depth), config, seed=1)


def test_a_critic_is_nowhere_steeper_than_one_before_and_while_it_learns() -> None:
    x, y = world()
    played = game(GanRealNvpConfig(**SMALL), 3)
    for _ in range(4):
        for h in (played.of_x, played.of_y):
            assert steepness(h) < 1 + 1e-5
            a, b = 10 * torch.randn(2, 500, 3, generator=seeded(3))
            with torch.no_grad():
                rise = (h(a) - h(b)).abs().flatten() / (a - b).norm(dim=1)
            assert rise.max() < 1 + 1e-5
        played.epoch(x, y)


def test_a_layer_is_as_steep_as_it_may_be_where_its_rows_are_orthogonal() -> None:
    layer = AlmostOrthogonal()
    turned = torch.linalg.qr(torch.randn(8, 5, generator=seeded(0))).Q.T * torch.linspace(0.1, 9, 5)[:, None]
    assert torch.allclose(torch.linalg.svdvals(layer(turned)), torch.ones(5), atol=1e-5)
    for number in range(20):
        wide = torch.randn(5, 8, generator=seeded(number)).exp()
        assert 0.5 < torch.linalg.matrix_norm(layer(wide), 2) <= 1 + 1e-5
    assert torch.equal(layer(torch.zeros(3, 4)), torch.zeros(3, 4))
    assert steepness(critic(40, 16)) < 1


def test_the_distance_is_the_earth_movers() -> None:
    """Two heaps of the same shape are as far apart as their means. Both directions are counted."""
    x = torch.randn(600, 2, generator=seeded(0))
    y = torch.randn(600, 2, generator=seeded(1)) + torch.tensor([2.0, 1.0])
    played = game(GanRealNvpConfig(**SMALL | {"learning_rate": 1e-12}), 2)
    distances = [played.epoch(x, y) for _ in range(4)]
    assert distances[-1] == pytest.approx(2 * math.sqrt(5), rel=0.1)
    assert distances[0] < distances[-1] * 1.05


def test_a_step_of_the_flows_by_autograd() -> None:
    """One word on each side, so that it does not matter which are drawn; RMSprop's first step is known."""
    x, y = torch.randn(1, 4, generator=seeded(0)), torch.randn(1, 4, generator=seeded(1))
    config = GanRealNvpConfig(**SMALL | {"batch": 1, "critic_steps": 1, "likelihood": 0.3})
    played = game(config, 4)
    flows = copy.deepcopy(played.flows)
    played.epoch(x, y, lambda function, a, b, generator: 2 * (function(a) - b).square().sum())
    of_x, of_y = (copy.deepcopy(h).eval() for h in (played.of_x, played.of_y))
    density = flows.source().log_prob(x) + flows.target().log_prob(y)
    loss = -of_y(flows(x)).sum() - of_x(flows.back(y)).sum() - 0.3 * density.sum() + 2 * (flows(x) - y).square().sum()
    loss.backward()
    for before, after in zip(flows.parameters(), played.flows.parameters(), strict=True):
        slope = torch.zeros_like(before) if before.grad is None else before.grad
        step = config.learning_rate * slope / (math.sqrt(0.01) * slope.abs() + 1e-8)
        assert torch.allclose(after, before - step, atol=2e-4)


def test_words_come_to_lie_on_their_translations_without_any_dictionary() -> None:
    x, y = world()
    other = y[torch.randperm(400, generator=seeded(5))]  # nothing says which word is which
    config = MappingConfig(method="gan-real-nvp", normalise="none", gan_real_nvp=SMALL | {"select": "last"})
    source, target = map_both(x, other, None, config, seed=1)
    assert torch.equal(target.transform(other), other)
    before, after = ((side - y).square().sum(1).mean().item() for side in (x, source.transform(x)))
    assert after < 0.1 * before


def test_the_flows_are_left_as_they_were_after_the_last_good_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = world(100)
    real, states = Game.epoch, []

    def epoch(self: Game, *data: Any) -> float:
        real(self, *data)
        states.append(copy.deepcopy(self.flows.state_dict()))
        return math.nan if len(states) == 3 else 1.0

    monkeypatch.setattr(Game, "epoch", epoch)
    config = GanRealNvpConfig(**SMALL | {"select": "last"})
    kept = gan_real_nvp(x, y, None, config)[0].network.state_dict()
    assert len(states) == 3
    assert all(torch.equal(kept[name], states[1][name]) for name in kept)
    assert any(not torch.equal(kept[name], states[2][name]) for name in kept)


@pytest.mark.parametrize("rate", ["learning_rate", "critic_learning_rate"])
def test_a_game_that_diverges_is_explained(rate: str) -> None:
    x, y = world(100)
    with pytest.raises(TrainingError, match=r"(?s)diverged in its first epoch.*learning_rate"):
        gan_real_nvp(x, y, None, GanRealNvpConfig(**SMALL | {rate: 1e38}), how="none")


def test_it_goes_on_from_a_mapping_which_stays_as_it_is() -> None:
    x, y = world(100)
    config = GanRealNvpConfig(**SMALL | {"epochs": 1, "select": "last"})
    first = gan_real_nvp(x, y, None, config, how="none")[0]
    was = first.transform(x)
    slow = GanRealNvpConfig(**SMALL | {"epochs": 1, "learning_rate": 1e-9})
    second = gan_real_nvp(x, y, None, slow, how="none", before=first)[0]
    assert torch.equal(first.transform(x), was)
    assert torch.allclose(second.transform(x), was, atol=1e-4)
    assert (was - x).abs().max() > 0.01


def test_only_frequent_words_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = world(100)
    seen: list[int] = []
    monkeypatch.setattr(Game, "epoch", lambda self, a, b, constraint: seen.extend([len(a), len(b)]) or 1.0)
    gan_real_nvp(x, y[:50], None, GanRealNvpConfig(**SMALL | {"epochs": 1, "frequent": 60}))
    assert seen == [60, 50]


def test_a_dictionary_is_for_the_start_or_for_validation() -> None:
    x, y = world(100)
    pairs = (torch.arange(20), torch.arange(20))
    short = SMALL | {"epochs": 1}
    for use in ({"start": "rotation"}, {"select": "validation"}):
        gan_real_nvp(x, y, pairs, GanRealNvpConfig(**short | use))
        with pytest.raises(DataError, match="needs a dictionary"):
            gan_real_nvp(x, y, None, GanRealNvpConfig(**short | use))
    with pytest.raises(DataError, match="has no use for the dictionary"):
        gan_real_nvp(x, y, pairs, GanRealNvpConfig(**short))
    AlignConfig(method="gan-real-nvp", dictionary="none")
    with pytest.raises(ValueError, match="gan-real-nvp needs dictionary: none"):
        AlignConfig(method="gan-real-nvp")


def test_bad_input_is_explained() -> None:
    x, y = world(100)
    config = MappingConfig(method="gan-real-nvp", gan_real_nvp=SMALL)
    with pytest.raises(DataError, match="2 words are fewer than the 3 dimensions"):
        map_both(x, y[:2], None, config, 1)
    with pytest.raises(DataError, match="target: all vectors are the same"):
        map_both(x, torch.ones(100, 3), None, config, 1)
    with pytest.raises(DataError, match="vector of word 1 is not finite"):
        map_both(torch.full((5, 3), math.nan), y, None, config, 1)


def test_the_same_seed_gives_the_same_bits_and_no_global_randomness() -> None:
    x, y = world(100)
    config = GanRealNvpConfig(**SMALL | {"epochs": 1})
    state = torch.random.get_rng_state()
    first, again, other = (gan_real_nvp(x, y, None, config, seed)[0].transform(x) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)
