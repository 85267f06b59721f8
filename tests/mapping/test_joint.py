from itertools import pairwise

import torch

from babelray.mapping.joint import generalised_procrustes
from babelray.mapping.procrustes import rotation


def languages(noise: list[float], words: int = 200, width: int = 10) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Rotations of one space, the first of them unturned, each with its own noise."""
    generator = torch.Generator().manual_seed(0)
    space = torch.randn(words, width, generator=generator)
    rotations = [torch.linalg.qr(torch.randn(width, width, generator=generator)).Q for _ in noise]
    rotations[0] = torch.eye(width)
    noises = [level * torch.randn(words, width, generator=generator) for level in noise]
    return [(space + own) @ turn for own, turn in zip(noises, rotations, strict=True)], rotations


def test_rotations_are_recovered_and_the_hub_stays() -> None:
    vectors, rotations = languages([0.0, 0.0, 0.0])
    found, losses = generalised_procrustes(vectors, [torch.arange(200)] * 3)
    assert torch.equal(found[0], torch.eye(10)) or torch.allclose(found[0], torch.eye(10), atol=1e-5)
    for turn, back in zip(rotations, found, strict=True):
        assert torch.allclose(turn @ back, torch.eye(10), atol=1e-4)
    assert losses[-1] < 1e-6 * losses[0]


def test_no_round_raises_the_loss_and_what_is_found_is_a_rotation() -> None:
    vectors, _ = languages([1.0, 0.5, 0.7, 0.2])
    concepts = [torch.arange(200), torch.arange(200).roll(3), torch.arange(200), torch.randint(200, (200,))]
    found, losses = generalised_procrustes(vectors, concepts, rounds=20)
    assert all(after <= before + 1e-9 for before, after in pairwise(losses))
    assert losses[-1] < losses[0]
    for turn in found:
        assert torch.allclose(turn @ turn.T, torch.eye(10), atol=1e-5)


def test_languages_meet_better_than_over_a_noisy_hub() -> None:
    vectors, rotations = languages([4.0, 0.1, 0.1, 0.1, 0.1])
    alone = [rotation(x, vectors[0]) for x in vectors]
    mapped = [x @ turn for x, turn in zip(vectors, alone, strict=True)]
    found, _ = generalised_procrustes(mapped, [torch.arange(200)] * 5)

    def apart(way: list[torch.Tensor]) -> float:
        """How far the rotations of two languages are from leading to the same space."""
        return (rotations[1] @ way[1] - rotations[2] @ way[2]).norm().item()

    assert apart([a @ b for a, b in zip(alone, found, strict=True)]) < 0.5 * apart(alone)


def test_a_language_with_two_words_for_a_concept_counts_once() -> None:
    """Repeating every word of a language changes nothing."""
    vectors, _ = languages([0.5, 0.5, 0.5])
    concepts = [torch.arange(200)] * 3
    once, _ = generalised_procrustes(vectors, concepts)
    twice, _ = generalised_procrustes(
        [vectors[0], vectors[1].repeat(2, 1), vectors[2]], [concepts[0], concepts[1].repeat(2), concepts[2]]
    )
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(once, twice, strict=True))
