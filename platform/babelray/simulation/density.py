"""Worlds in the plane: two languages whose words are clouds of occurrences (Zhao and Eger, section 4.3).

Word i has its location μ_i, drawn uniformly from [-5, 5]². An occurrence of it in the source language, and its
translation:

    x ~ N(μ_i, I) in the training text,  x ~ N(μ_i + ε, I) in the other text;      y = w_{t-1}(… w_1(x) …) R

R is a rotation: for t = 1 the languages are isomorphic. For t > 1 the paper says only that translation is combined with
rotation to give a non-linear transformation. We take it so: each w_j is a whirl about a point c_j, which is a
translation there, a rotation, and the translation back,

    w(x) = c + (x - c) R(α exp(-‖x - c‖² / 2s²))

With one angle everywhere this would be a rigid motion; since it fades with the distance, it is not linear. Whirls
rotate to the left and to the right alternately, so that they do not rotate the language as a whole. Reasons for this
choice: t = 1 is the isomorphic world itself, and t counts by how much a world differs from it; a whirl keeps the
distance to its centre, so it is one-to-one and a perfect mapping exists; it keeps areas, so that an occurrence and its
translation have the same density; and its reach is limited, so that far from all whirls only R is left.

R is no reflection, and its angle is limited: a flow cannot mirror the plane, and methods without a dictionary start
from the identity, as two languages of one encoder are near to each other before anything is learned.

Shapes: V words, K occurrences of each, N = V K occurrences, W whirls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor

SIDE = 5.0
"""Words and whirls are located within ±SIDE."""
REACH = 2.0
"""s: the reach of a whirl."""
LARGEST_ANGLE = math.pi / 3
"""The largest |α|; the smallest is half of it."""


class Text(NamedTuple):
    """Occurrences of both languages: row n of one translates row n of the other."""

    source_N2: Tensor
    target_N2: Tensor
    word_N: Tensor


@dataclass(frozen=True)
class DensityWorld:
    location_V2: Tensor
    rotation_22: Tensor
    centre_W2: Tensor
    angle_W: Tensor

    @classmethod
    def make(cls, words: int = 20, t: int = 1, turn: float = 10.0, seed: int = 0) -> DensityWorld:
        """Two languages that are isomorphic (t = 1) or differ by t - 1 whirls; R rotates by at most `turn` degrees.

        Worlds of the same seed have the same words and the same R, and share their first whirls.
        """
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return 2 * torch.rand(*shape, generator=generator) - 1

        location_V2 = SIDE * draw(words, 2)
        rotation_22 = rotations(math.radians(turn) * draw(1))[0]
        whirl_W3 = draw(t - 1, 3)
        side_W = torch.ones(t - 1) - 2 * (torch.arange(t - 1) % 2)
        angle_W = side_W * LARGEST_ANGLE * (3 + whirl_W3[:, 2]) / 4
        return cls(location_V2, rotation_22, SIDE * whirl_W3[:, :2], angle_W)

    def translate(self, x_N2: Tensor) -> Tensor:
        """The translation of each occurrence."""
        for centre_2, angle in zip(self.centre_W2, self.angle_W, strict=True):
            offset_N2 = x_N2 - centre_2
            fading_N = torch.exp(-offset_N2.square().sum(1) / (2 * REACH**2))
            x_N2 = centre_2 + (offset_N2.unsqueeze(1) @ rotations(angle * fading_N)).squeeze(1)
        return x_N2 @ self.rotation_22

    def text(self, occurrences: int, epsilon: float, seed: int) -> Text:
        """`occurrences` of each word and their translations; ε is their distance from the training text."""
        word_N = torch.arange(len(self.location_V2)).repeat_interleave(occurrences)
        noise_N2 = torch.randn(len(word_N), 2, generator=torch.Generator().manual_seed(seed))
        source_N2 = self.location_V2[word_N] + epsilon + noise_N2
        return Text(source_N2, self.translate(source_N2), word_N)


def rotations(angle_N: Tensor) -> Tensor:
    """(N, 2, 2): x R rotates the row x by the angle, counter-clockwise."""
    cos_N, sin_N = angle_N.cos(), angle_N.sin()
    return torch.stack([torch.stack([cos_N, sin_N], 1), torch.stack([-sin_N, cos_N], 1)], 1)


def precision(mapped_N2: Tensor, target_N2: Tensor, word_N: Tensor) -> dict[str, float]:
    """Contextual word translation by the nearest neighbour: the share of the occurrences whose answer is right.

    `p1`: the answer is the occurrence's own translation; each occurrence is an entry of the lexicon, as in the paper.
    `word_p1`: it is any occurrence of the right word. Distances are those of the plane: the cosine, which is usual for
    many dimensions, would ignore one of the two.

    >>> precision(torch.tensor([[0.0, 0], [2, 0]]), torch.tensor([[0.0, 1], [0, 3]]), torch.tensor([0, 0]))
    {'p1': 0.5, 'word_p1': 1.0}
    """
    nearest_N = torch.cdist(mapped_N2, target_N2).argmin(1)
    right_N = nearest_N == torch.arange(len(nearest_N))
    return {"p1": right_N.float().mean().item(), "word_p1": (word_N[nearest_N] == word_N).float().mean().item()}
