"""Rogue dimensions, which dominate the cosine (Timkey and van Schijndel, 2021), and two remedies.

Shapes: V words, D dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def contributions(vectors_VD: Tensor) -> Tensor:
    """The contribution of each dimension (D) to the mean cosine of two words: with û = u / |u|, (mean of û_d)²."""
    return torch.nn.functional.normalize(vectors_VD.double(), dim=1).mean(0).square().float()


def remove_rogue_dimensions(vectors_VD: Tensor, count: int) -> Tensor:
    """The same vectors with the `count` dimensions that contribute most set to zero."""
    vectors_VD = vectors_VD.clone()
    vectors_VD[:, contributions(vectors_VD).topk(min(count, vectors_VD.shape[1])).indices] = 0
    return vectors_VD


def standardise(vectors_VD: Tensor) -> Tensor:
    """Every dimension with mean 0 and variance 1 over the words; a constant one becomes 0."""
    spread_D = vectors_VD.std(0, correction=0)
    return (vectors_VD - vectors_VD.mean(0)) / torch.where(spread_D > 1e-12, spread_D, torch.inf)
