import copy
import math
from typing import Any

import pytest
import torch

from babelray.errors import DataError, TrainingError
from babelray.mapping.adversarial_flows import AdversarialFlows
from babelray.mapping.gan_real_nvp import GanRealNvpConfig, gan_real_nvp
from babelray.mapping.method import fit_mappings
from babelray.recipe.align import AlignConfig
from support.skewed_words import SMALL, seeded, world


def test_words_come_to_lie_on_their_translations_without_any_dictionary() -> None:
    x, y = world()
    other = y[torch.randperm(400, generator=seeded(5))]  # nothing says which word is which
    config = GanRealNvpConfig(normalise="none", **SMALL | {"select": "last"})
    source, target = fit_mappings(x, other, None, config, seed=1)
    assert torch.equal(target.transform(other), other)
    before, after = ((side - y).square().sum(1).mean().item() for side in (x, source.transform(x)))
    assert after < 0.1 * before


def test_the_flows_are_left_as_they_were_after_the_last_good_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = world(100)
    real, states = AdversarialFlows.epoch, []

    def epoch(self: AdversarialFlows, *data: Any) -> float:
        real(self, *data)
        states.append(copy.deepcopy(self.flows.state_dict()))
        return math.nan if len(states) == 3 else 1.0

    monkeypatch.setattr(AdversarialFlows, "epoch", epoch)
    config = GanRealNvpConfig(**SMALL | {"select": "last"})
    kept = gan_real_nvp(x, y, None, config)[0].network.state_dict()
    assert len(states) == 3
    assert all(torch.equal(kept[name], states[1][name]) for name in kept)
    assert any(not torch.equal(kept[name], states[2][name]) for name in kept)


@pytest.mark.parametrize("rate", ["learning_rate", "critic_learning_rate"])
def test_a_game_that_diverges_is_explained(rate: str) -> None:
    x, y = world(100)
    with pytest.raises(TrainingError, match=r"(?s)diverged in its first epoch.*learning_rate"):
        gan_real_nvp(x, y, None, GanRealNvpConfig(normalise="none", **SMALL | {rate: 1e38}))


def test_it_goes_on_from_a_mapping_which_stays_as_it_is() -> None:
    x, y = world(100)
    config = GanRealNvpConfig(normalise="none", **SMALL | {"epochs": 1, "select": "last"})
    first = gan_real_nvp(x, y, None, config)[0]
    was = first.transform(x)
    slow = GanRealNvpConfig(normalise="none", **SMALL | {"epochs": 1, "learning_rate": 1e-9})
    second = gan_real_nvp(x, y, None, slow, initial=first)[0]
    assert torch.equal(first.transform(x), was)
    assert torch.allclose(second.transform(x), was, atol=1e-4)
    assert (was - x).abs().max() > 0.01


def test_only_frequent_words_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = world(100)
    seen: list[int] = []
    monkeypatch.setattr(AdversarialFlows, "epoch", lambda self, a, b, constraint: seen.extend([len(a), len(b)]) or 1.0)
    gan_real_nvp(x, y[:50], None, GanRealNvpConfig(**SMALL | {"epochs": 1, "frequent": 60}))
    assert seen == [60, 50]


def test_a_dictionary_is_for_the_start_or_for_validation() -> None:
    x, y = world(100)
    pairs = (torch.arange(20), torch.arange(20))
    short = SMALL | {"epochs": 1}
    for use in ({"start": "rotation"}, {"select": "validation"}):
        gan_real_nvp(x, y, pairs, GanRealNvpConfig(**short | use))
        with pytest.raises(DataError, match="needs a dictionary"):
            fit_mappings(x, y, None, GanRealNvpConfig(**short | use), 1)
    with pytest.raises(DataError, match="and otherwise none"):
        fit_mappings(x, y, pairs, GanRealNvpConfig(**short), 1)
    AlignConfig(mapping="gan-real-nvp", dictionary="none")
    with pytest.raises(ValueError, match=r"gan-real-nvp needs a dictionary for start: rotation .*dictionary: none"):
        AlignConfig(mapping="gan-real-nvp")


def test_bad_input_is_explained() -> None:
    x, y = world(100)
    config = GanRealNvpConfig(**SMALL)
    with pytest.raises(DataError, match="2 words are fewer than the 3 dimensions"):
        fit_mappings(x, y[:2], None, config, 1)
    with pytest.raises(DataError, match="target: all vectors are the same"):
        fit_mappings(x, torch.ones(100, 3), None, config, 1)
    with pytest.raises(DataError, match="vector of word 1 is not finite"):
        fit_mappings(torch.full((5, 3), math.nan), y, None, config, 1)


def test_the_same_seed_gives_the_same_bits_and_no_global_randomness() -> None:
    x, y = world(100)
    config = GanRealNvpConfig(**SMALL | {"epochs": 1})
    state = torch.random.get_rng_state()
    first, again, other = (gan_real_nvp(x, y, None, config, seed)[0].transform(x) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)
