"""A world of two languages in which it is known which words mean what.

Words belong to classes (animals, tools, …). A sentence is about one class, and draws its words from that class and from
the few that go with it, by Zipf's law. So words of one class occur with the same classes, and the result of a method
can be checked: the nearest neighbours of a word should be of its class. Both languages have the same classes and the
same cooccurrence of classes, but no word in common.

Shapes: V words, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

SOUNDS = (("bdfgklmnprst", "aeiou"), ("βγδζθκλμνπρσ", "αεηιο"))


@dataclass(frozen=True)
class World:
    """`words[l][i]` is word i of language l; word i means the same in both, and is of class `class_V[i]`."""

    words: tuple[list[str], list[str]]
    class_V: np.ndarray
    cooccurrence_CC: np.ndarray
    """The chance that a sentence about a class draws a word from each class."""

    @classmethod
    def make(cls, classes: int = 20, each: int = 15, seed: int = 0) -> World:
        """A world of `classes` classes of `each` words; each class often occurs with three others."""
        random = np.random.default_rng(seed)
        count = classes * each
        words = (_words(SOUNDS[0], count, random), _words(SOUNDS[1], count, random))
        cooccurrence_CC = 0.4 * np.eye(classes)
        for topic in range(classes):
            others = random.choice([c for c in range(classes) if c != topic], 3, replace=False)
            cooccurrence_CC[topic, others] = 0.2
        return cls(words, np.repeat(np.arange(classes), each), cooccurrence_CC)

    def sentences(self, language: int, count: int, seed: int) -> list[list[str]]:
        """Sentences of 6 to 14 words; those of two languages or seeds are independent."""
        random = np.random.default_rng([seed, language])
        classes = len(self.cooccurrence_CC)
        each = len(self.class_V) // classes
        weights = 1 / np.arange(1, each + 1)
        sentences = []
        for topic in random.integers(classes, size=count):
            length = random.integers(6, 15)
            classes_N = random.choice(classes, length, p=self.cooccurrence_CC[topic])
            ranks_N = random.choice(each, length, p=weights / weights.sum())
            sentences.append([self.words[language][i] for i in classes_N * each + ranks_N])
        return sentences

    def class_of(self, language: int) -> dict[str, int]:
        return dict(zip(self.words[language], self.class_V.tolist(), strict=True))


def _words(sounds: tuple[str, str], count: int, random: np.random.Generator) -> list[str]:
    """Different words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        pairs = zip(random.choice([*sounds[0]], 3), random.choice([*sounds[1]], 3), strict=True)
        words["".join(["".join(pair) for pair in pairs][: random.integers(2, 4)])] = None
    return list(words)


def neighbour_precision(matrix_VD: Tensor, classes: Sequence[int], count: int = 5) -> float:
    """The share of the nearest words by cosine, `count` for each word, that are of the word's own class."""
    import torch

    unit_VD = torch.nn.functional.normalize(matrix_VD - matrix_VD.mean(0), dim=1)
    similar_VV = (unit_VD @ unit_VD.T).fill_diagonal_(-2)
    class_V = torch.tensor(list(classes))
    return (class_V[similar_VV.topk(count).indices] == class_V.unsqueeze(1)).float().mean().item()
