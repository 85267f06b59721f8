from collections import Counter

import numpy as np
import pytest
import torch

from babelray.simulation.world import World, neighbour_precision


def test_the_world_is_as_it_says() -> None:
    world = World.make(classes=6, each=4, seed=1)
    assert len(set(world.words[0]) | set(world.words[1])) == 48, "no word is in both languages"
    assert np.allclose(world.cooccurrence_CC.sum(1), 1)
    assert world.sentences(0, 5, seed=3) == World.make(6, 4, seed=1).sentences(0, 5, seed=3)
    for language in (0, 1):
        found = world.sentences(language, 400, seed=2)
        assert {len(sentence) for sentence in found} == set(range(6, 15))
        counts = Counter(world.class_of(language)[word] for sentence in found for word in sentence)
        assert set(counts) == set(range(6))
        words = Counter(word for sentence in found for word in sentence)
        assert words[world.words[language][0]] > words[world.words[language][3]], "the first of a class is frequent"


def test_precision_of_neighbours() -> None:
    classes = [0, 0, 0, 1, 1, 1]
    good = torch.eye(2)[torch.tensor(classes)] + 0.01 * torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    assert neighbour_precision(good, classes, 2) == 1
    assert neighbour_precision(good, [0, 1, 0, 1, 0, 1], 2) == pytest.approx(1 / 3, abs=0.1)
