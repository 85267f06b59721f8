"""Relative representations: a word as a mean of its nearest anchors (Ye et al., 2024, section 4).

    r_ij = cos(x_i, a_j)                    F_i = Σ_{j ∈ N(i)} w_ij e_j

where a_j is the vector of anchor j in the word's own space, e_j the embedding of its translation in the source
encoder, and N(i) holds the k anchors with the largest r_ij. So words of both languages get embeddings in the encoder's
space, whatever space their vectors are from; a rotation of that space does not change the result. The weights are

    standard     w_ij = (r_ij / τ) / Σ_{n ∈ N(i)} (r_in / τ)     the paper's formula, in which τ cancels out
    softmax      w_i = softmax(r_i / τ)                          a small τ favours the nearest anchor
    sparsemax    w_i = argmin_{w ∈ Δ} ‖w − r_i / τ‖²             a small τ gives weight to fewer anchors

Negative similarities stay negative in `standard`: with all anchors their sum can come near zero, and F_i is then
unbounded. A vector of zeros is equally near to all anchors: all get the same weight.

Shapes: N words, A anchors, K nearest anchors, E width of the words' space, D width of the encoder, B rows of a tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationInfo, field_validator

from babelray.stitching.method import STITCHING_METHODS, AnchoredMethod, Neighbours, Start, neighbour_count

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.stitching.target import Target

Weighting = Literal["standard", "softmax", "sparsemax"]
CELLS = 1 << 24
"""Similarities that are held at once: 64 MB."""


@STITCHING_METHODS.register
class Relative(AnchoredMethod):
    """Relative representations: words of both languages as means of their nearest anchors (Ye et al., 2024). The
    defaults are the paper's.
    """

    method: Literal["relative"] = "relative"
    k: Neighbours = 50
    """Nearest anchors that a word is made of, at most as many as there are, or `all`."""
    weighting: Weighting = "standard"
    """How the nearest anchors are weighted: see `relative.py`. A single anchor has all the weight."""
    temperature: float = Field(1.0, gt=0)
    """τ. Standard weights do not depend on it."""
    keep_source: bool = False
    """Whether the hub keeps its own embeddings, and only those of the target language are made of anchors. Otherwise
    every target language needs a fine-tuning of its own."""

    @field_validator("weighting")
    @classmethod
    def _one_anchor_has_all_the_weight(cls, value: Weighting, info: ValidationInfo) -> Weighting:
        """Systems with the same results are equal, so that nothing is computed twice."""
        return "standard" if info.data.get("k") == 1 else value

    @field_validator("temperature")
    @classmethod
    def _standard_weights_have_none(cls, value: float, info: ValidationInfo) -> float:
        """τ cancels out."""
        return 1.0 if info.data.get("weighting") == "standard" else value

    def start(self) -> Start:
        return super().start()._replace(source=None if self.keep_source else self)

    def source_embeddings(self, target: Target, seed: int) -> Tensor:
        """Every piece of the source as a mean of its nearest anchors; special tokens keep their embeddings."""
        source_VD = target.source.embeddings_VD
        anchors_AD = source_VD[self.find_anchors(target, seed).pieces_A]
        embeddings_VD = self._relative(source_VD, anchors_AD, anchors_AD)
        embeddings_VD[target.source.special] = source_VD[target.source.special]
        return embeddings_VD

    def target_embeddings(self, target: Target, seed: int) -> Tensor:
        anchors, words_NE = self.find_anchors(target, seed), target.vectors.matrix
        return self._relative(words_NE, words_NE[anchors.rows_A], target.source.embeddings_VD[anchors.pieces_A])

    def _relative(self, words_NE: Tensor, anchors_AE: Tensor, embeddings_AD: Tensor) -> Tensor:
        k = neighbour_count(self.k)
        return relative(words_NE, anchors_AE, embeddings_AD, k, self.weighting, self.temperature)


def relative(
    words_NE: Tensor,
    anchors_AE: Tensor,
    embeddings_AD: Tensor,
    k: int | None = 50,
    weighting: Weighting = "standard",
    temperature: float = 1.0,
) -> Tensor:
    """F (N, D) of words from the anchors' vectors in their space and in the encoder's; `k` is None for all anchors.

    >>> import torch
    >>> relative(torch.eye(2), torch.eye(2), torch.tensor([[3.0], [5.0]]), k=1)
    tensor([[3.],
            [5.]])
    """
    import torch
    from torch.nn import functional

    unit_AE, count = functional.normalize(anchors_AE), len(anchors_AE)
    tiles = []
    for tile_BE in words_NE.split(max(1, CELLS // count)):
        near_BA = functional.normalize(tile_BE) @ unit_AE.T
        if k is None or k >= count:
            weights_BA = weights(near_BA, weighting, temperature)
        else:
            near_BK, at_BK = near_BA.topk(k)
            weights_BA = torch.zeros_like(near_BA).scatter_(1, at_BK, weights(near_BK, weighting, temperature))
        tiles.append(weights_BA @ embeddings_AD)
    return torch.cat(tiles)


def weights(near_BK: Tensor, weighting: Weighting, temperature: float) -> Tensor:
    """The weights of anchors by their similarity, as in the module's docstring; each row sums to 1."""
    import torch

    if weighting == "softmax":
        return (near_BK / temperature).softmax(1)
    if weighting == "sparsemax":
        return sparsemax(near_BK / temperature)
    sums_B1 = near_BK.sum(1, keepdim=True)
    return torch.where(sums_B1 == 0, 1 / near_BK.shape[1], near_BK / sums_B1)


def sparsemax(scores_BK: Tensor) -> Tensor:
    """The point of the simplex that is nearest to each row (Martins and Astudillo, 2016, Algorithm 1).

        w_j = max(z_j − θ, 0),    θ = (Σ_{j ≤ m} z_(j) − 1) / m,    m = max {j : 1 + j z_(j) > Σ_{i ≤ j} z_(i)}

    >>> import torch
    >>> sparsemax(torch.tensor([[0.5, 0.5, -1.0], [2.0, 0.0, 0.0]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [1.0000, 0.0000, 0.0000]])
    """
    import torch

    scores_BK = scores_BK - scores_BK.max(1, keepdim=True).values  # for precision only
    sorted_BK = scores_BK.sort(1, descending=True).values
    above_BK = sorted_BK.cumsum(1) - 1
    ranks_K = torch.arange(1, scores_BK.shape[1] + 1, device=scores_BK.device)
    support_B1 = (ranks_K * sorted_BK > above_BK).sum(1, keepdim=True)
    return (scores_BK - above_BK.gather(1, support_B1 - 1) / support_B1).clamp(min=0)
