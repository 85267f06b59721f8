"""Deep CCA between the encoder's vectors of single words and their aligned static vectors (Hämmerl et al., 2022).

    L = −Σ_i ρ_i,   ρ = singular values of Σ₁₁^(−1/2) Σ₁₂ Σ₂₂^(−1/2)

The sum is that of Andrew et al. (2013), and grows with the width. Only some linear projection of the encoder's vectors
has to correlate with the static ones, so it does not force the encoder into their coordinates, as a mean squared error
does (`static-mse`). `static_words` defines the words and their vectors.

It is one loss of all words of a step: their vectors are gathered from all workers and accumulated parts, while the
encoder reads only a part of them at once. Take several times as many words as the encoder is wide: any two views of
fewer words than dimensions correlate perfectly.

The correlations come from Cholesky factors of the shrunk covariances instead of inverse square roots: the singular
values are the same, and the gradient has no differences of eigenvalues in a denominator. Where the published script
differs: it centres the two views with other rows' means, lets padding into the pool, and takes 64 words at a time,
fewer than its encoder is wide. Ours does none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from babelray.objectives.objective import OBJECTIVES, Batch, GlobalObjective
from babelray.objectives.static_words import StaticWords, StaticWordsConfig

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.objectives.objective import TrainingData


@OBJECTIVES.register
class StaticDccaConfig(StaticWordsConfig):
    """The vectors of single words correlate with aligned static vectors (deep CCA)."""

    title: ClassVar[str] = "Static DCCA"

    kind: Literal["static-dcca"] = "static-dcca"
    shrinkage: float = Field(0.1, gt=0, le=1)
    """Share of the mean variance that is mixed into each covariance, which keeps the problem well posed."""

    def build(self, training_data: TrainingData) -> StaticDcca:
        return StaticDcca(self, training_data)


def canonical_correlations(first_ND: Tensor, second_NE: Tensor, shrinkage: float) -> Tensor:
    """Canonical correlations of two views of the same N rows, largest first, with shrunk covariances.

    Σ ← (1 − s) Σ + s tr(Σ)/d I for each view's own covariance.
    """
    import torch

    first_DN, second_EN = whitened(first_ND, shrinkage), whitened(second_NE, shrinkage)
    return torch.linalg.svdvals(first_DN @ second_EN.T / (len(first_ND) - 1))


def correlation_terms(first_ND: Tensor, second_NE: Tensor, shrinkage: float) -> Tensor:
    """Each row's share (N,) of the total correlation Σ ρ: their mean is it, with the same gradient.

    The sum of the singular values of W is tr(Uᵀ W V), and by the envelope theorem U and V count as constants in its
    gradient; and W is a sum over the rows.
    """
    import torch

    first_DN, second_EN = whitened(first_ND, shrinkage), whitened(second_NE, shrinkage)
    count = len(first_ND)
    with torch.no_grad():
        left_DK, _, right_KE = torch.linalg.svd(first_DN @ second_EN.T / (count - 1), full_matrices=False)
    products_KN = (left_DK.T @ first_DN) * (right_KE @ second_EN)
    return products_KN.sum(0) * count / (count - 1)


def whitened(view_ND: Tensor, shrinkage: float) -> Tensor:
    """A view (D, N) centred and multiplied by the inverse Cholesky factor of its shrunk covariance."""
    import torch

    centred_ND = view_ND.double() - view_ND.double().mean(0)
    covariance_DD = centred_ND.T @ centred_ND / (len(view_ND) - 1)
    variance = covariance_DD.diagonal().mean().clamp(min=1e-12)
    identity_DD = torch.eye(len(covariance_DD), dtype=covariance_DD.dtype, device=covariance_DD.device)
    factor_DD = torch.linalg.cholesky((1 - shrinkage) * covariance_DD + shrinkage * variance * identity_DD)
    return torch.linalg.solve_triangular(factor_DD, centred_ND.T, upper=False)


class StaticDcca(StaticWords, GlobalObjective):
    """The correlation of words with their static vectors."""

    def __init__(self, config: StaticDccaConfig, training_data: TrainingData) -> None:
        super().__init__(config, training_data)
        self.shrinkage = config.shrinkage

    def global_context(self, step: int) -> Batch:
        return {"static": self.static_vectors(self.examples(step))}

    def global_terms(self, vectors_ND: Tensor, global_context: Batch) -> Tensor:
        return -correlation_terms(vectors_ND, global_context["static"], self.shrinkage).float()
