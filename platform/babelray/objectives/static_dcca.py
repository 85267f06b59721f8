"""Deep CCA between the encoder's vectors of single words and their aligned static vectors (Hämmerl et al., 2022).

    L = −1/k Σ_i ρ_i,   ρ = singular values of Σ₁₁^(−1/2) Σ₁₂ Σ₂₂^(−1/2)

Words are drawn from the static vectors of all languages, encoded alone and mean-pooled over their
subwords. The loss asks only that some linear view of the encoder's vectors correlates with the static ones,
so it does not force the encoder into their coordinates, as a mean squared error would. The gradient flows to the
encoder alone. No parallel text is needed.

The correlations come from Cholesky factors of the shrunk covariances instead of inverse square roots: the
singular values are the same, and the gradient has no differences of eigenvalues in a denominator. The
published script centres the two views with other rows' means and lets padding into the pool; we do neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.objectives.objective import Batch, Materials, Objective, ObjectiveConfig, language_shares

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class StaticDccaConfig(ObjectiveConfig):
    kind: Literal["static-dcca"] = "static-dcca"
    batch_size: int = Field(512, ge=2)
    """Words per worker and step; several times the width of the encoder, or everything correlates."""
    shrinkage: float = Field(0.1, gt=0, le=1)
    """Share of the mean variance that is mixed into each covariance, which keeps the problem well posed."""
    temperature: float = Field(0.7, ge=0, le=1)
    """How languages are drawn: 1 as their vocabularies, 0 all alike."""


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


class StaticDcca(Objective):
    """Words of all languages against their aligned static vectors."""

    def __init__(self, config: StaticDccaConfig, materials: Materials) -> None:
        super().__init__(config, materials)
        self.config = config
        self.vectors = [materials.vectors(code) for code in materials.languages]
        self.shares = language_shares([len(words) for words, _ in self.vectors], config.temperature)

    def batch(self, step: int) -> Batch:
        import torch

        generator = self.generator(step)
        chosen = generator.choice(len(self.vectors), size=self.config.batch_size, p=self.shares)
        rows = [(language, generator.integers(len(self.vectors[language][0]))) for language in chosen]
        ids_BT, mask_BT, words_BT = self.encode([self.vectors[language][0][row] for language, row in rows])
        return {
            "ids": ids_BT,
            "mask": mask_BT,
            "pooled": words_BT,
            "static": torch.stack([self.vectors[language][1][row] for language, row in rows]),
        }

    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        from babelray.encoder.pool import mean_pool

        hidden_BTD = model.base_model(input_ids=batch["ids"], attention_mask=batch["mask"]).last_hidden_state
        words_BD = mean_pool(hidden_BTD, batch["pooled"])
        return -canonical_correlations(words_BD, batch["static"], self.config.shrinkage).mean().float()
