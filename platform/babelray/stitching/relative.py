"""Relative representations: a word as a mean of the anchors that it is near to (Ye et al., 2024, section 4).

    r_ij = cos(x_i, a_j)                    F_i = Σ_{j ∈ N(i)} w_ij e_j

where a_j is the vector of anchor j in the word's own space, e_j the embedding of its translation in the source
encoder, and N(i) holds the k anchors with the largest r_ij. So every word of either language comes to lie in the
encoder's space, whatever space it came from; a rotation of that changes nothing. The weights are

    standard     w_ij = (r_ij / τ) / Σ_{n ∈ N(i)} (r_in / τ)     the paper's formula, in which τ cancels out
    softmax      w_i = softmax(r_i / τ)                          a small τ lets the nearest anchor decide
    sparsemax    w_i = argmin_{w ∈ Δ} ‖w − r_i / τ‖²             a small τ leaves fewer anchors with any weight

Similarities below zero count as they are in `standard`: with all anchors their sum can come near zero, and F_i grows
without bound. A vector of zeros is as near to one anchor as to any other: all get the same weight.

Shapes: N words, A anchors, K nearest anchors, E width of the words' space, D width of the encoder, B rows of a tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.stitching.config import Weighting

CELLS = 1 << 24
"""Similarities that are kept at once: 64 MB."""


def relative(
    words_NE: Tensor,
    anchors_AE: Tensor,
    embeddings_AD: Tensor,
    k: int | None = 50,
    weighting: Weighting = "standard",
    temperature: float = 1.0,
) -> Tensor:
    """F (N, D) of words from the anchors' vectors in their space and in the encoder's; `k` is None for all anchors.

    >>> relative(torch.eye(2), torch.eye(2), torch.tensor([[3.0], [5.0]]), k=1)
    tensor([[3.],
            [5.]])
    """
    unit_AE, count = functional.normalize(anchors_AE), len(anchors_AE)
    found = []
    for tile_BE in words_NE.split(max(1, CELLS // count)):
        near_BA = functional.normalize(tile_BE) @ unit_AE.T
        if k is None or k >= count:
            weights_BA = weights(near_BA, weighting, temperature)
        else:
            near_BK, at_BK = near_BA.topk(k)
            weights_BA = torch.zeros_like(near_BA).scatter_(1, at_BK, weights(near_BK, weighting, temperature))
        found.append(weights_BA @ embeddings_AD)
    return torch.cat(found)


def weights(near_BK: Tensor, weighting: Weighting, temperature: float) -> Tensor:
    """The weights of anchors by their similarity, as in the module's docstring; each row adds up to 1."""
    if weighting == "softmax":
        return (near_BK / temperature).softmax(1)
    if weighting == "sparsemax":
        return sparsemax(near_BK / temperature)
    sums_B1 = near_BK.sum(1, keepdim=True)
    return torch.where(sums_B1 == 0, 1 / near_BK.shape[1], near_BK / sums_B1)


def sparsemax(scores_BK: Tensor) -> Tensor:
    """The point of the simplex that is nearest to each row (Martins and Astudillo, 2016, Algorithm 1).

        w_j = max(z_j − θ, 0),    θ = (Σ_{j ≤ m} z_(j) − 1) / m,    m = max {j : 1 + j z_(j) > Σ_{i ≤ j} z_(i)}

    >>> sparsemax(torch.tensor([[0.5, 0.5, -1.0], [2.0, 0.0, 0.0]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [1.0000, 0.0000, 0.0000]])
    """
    scores_BK = scores_BK - scores_BK.max(1, keepdim=True).values  # changes nothing but the rounding
    sorted_BK = scores_BK.sort(1, descending=True).values
    above_BK = sorted_BK.cumsum(1) - 1
    ranks_K = torch.arange(1, scores_BK.shape[1] + 1, device=scores_BK.device)
    support_B1 = (ranks_K * sorted_BK > above_BK).sum(1, keepdim=True)
    return (scores_BK - above_BK.gather(1, support_B1 - 1) / support_B1).clamp(min=0)
