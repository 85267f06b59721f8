"""Deep CCA between the encoder's vectors of single words and their aligned static vectors (Hämmerl et al., 2022).

    L = −1/k Σ_i ρ_i,   ρ = singular values of Σ₁₁^(−1/2) Σ₁₂ Σ₂₂^(−1/2)

The loss asks only that some linear view of the encoder's vectors correlates with the static ones, so it does not force
the encoder into their coordinates, as a mean squared error would (`static-mse`). `static_words` says what is compared.

The correlations come from Cholesky factors of the shrunk covariances instead of inverse square roots: the
singular values are the same, and the gradient has no differences of eigenvalues in a denominator. The
published script centres the two views with other rows' means and lets padding into the pool; we do neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.objectives.static_words import StaticWords, StaticWordsConfig

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from babelray.objectives.objective import Batch, Materials


class StaticDccaConfig(StaticWordsConfig):
    """Take several times as many words as the encoder is wide, or everything correlates."""

    kind: Literal["static-dcca"] = "static-dcca"
    shrinkage: float = Field(0.1, gt=0, le=1)
    """Share of the mean variance that is mixed into each covariance, which keeps the problem well posed."""


def canonical_correlations(first_ND: Tensor, second_NE: Tensor, shrinkage: float) -> Tensor:
    """Canonical correlations of two views of the same N rows, largest first, with shrunk covariances.

    Σ ← (1 − s) Σ + s tr(Σ)/d I for each view's own covariance.
    """
    import torch

    count = first_ND.shape[0]
    views = [(view - view.mean(0)).double() for view in (first_ND, second_NE)]
    factors = []
    for view in views:
        covariance = view.T @ view / (count - 1)
        variance = covariance.diagonal().mean().clamp(min=1e-12)
        identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
        factors.append(torch.linalg.cholesky((1 - shrinkage) * covariance + shrinkage * variance * identity))
    cross_DE = views[0].T @ views[1] / (count - 1)
    whitened_DE = torch.linalg.solve_triangular(factors[0], cross_DE, upper=False)
    whitened_DE = torch.linalg.solve_triangular(factors[1], whitened_DE.T, upper=False).T
    return torch.linalg.svdvals(whitened_DE)


class StaticDcca(StaticWords):
    """The correlation of words with their static vectors."""

    def __init__(self, config: StaticDccaConfig, materials: Materials) -> None:
        super().__init__(config, materials)
        self.shrinkage = config.shrinkage

    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        return -canonical_correlations(self.words(model, batch), batch["static"], self.shrinkage).mean().float()
