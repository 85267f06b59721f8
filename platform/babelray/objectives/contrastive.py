"""Contrastive alignment of translations: the multiple-negatives ranking loss.

    L = −1/B Σ_i log  exp(C · cos(x_i, y_i)) / Σ_{j ∈ N(i)} exp(C · cos(x_i, y_j)),   both directions averaged

x_i and y_i are the mean-pooled vectors of a word or sentence and of its translation in the hub, C = 20 is the scale
(an inverse temperature), and N(i) holds i and every other pair of the batch that is not a translation of i: pairs
with the same text on either side are left out, so that a true translation is never used as a negative.

Henderson et al. (2017); for words encoded in isolation Vulić et al. (2023). Use it when there are dictionary pairs or
parallel sentences: of the objectives here it moves retrieval most with little data, since it asks not only that
translations be near but that others be far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.objectives.objective import Batch, Materials, Objective, ObjectiveConfig, language_shares

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class ContrastiveConfig(ObjectiveConfig):
    kind: Literal["contrastive"] = "contrastive"
    pairs: Literal["words", "induced", "sentences"] = "sentences"
    """What is paired: entries of the dictionary, encoded alone; of the one that the align stage induced; or parallel
    sentences."""
    batch_size: int = Field(64, ge=2)
    """Pairs per worker and step."""
    scale: float = Field(20.0, gt=0)
    """C: how sharply the nearest negatives count."""
    temperature: float = Field(0.7, ge=0, le=1)
    """How languages are drawn: 1 as the data, 0 all alike."""


def ranking_loss(source_BD: Tensor, target_BD: Tensor, same_BB: Tensor, scale: float) -> Tensor:
    """The multiple-negatives ranking loss in both directions.

    `same_BB[i, j]` is true where pair j is a translation of pair i, as every pair is of itself: such a pair is
    never a negative.
    """
    import torch
    from torch.nn import functional

    cosine_BB = functional.normalize(source_BD.float()) @ functional.normalize(target_BD.float()).T
    diagonal_BB = torch.eye(len(cosine_BB), dtype=torch.bool, device=cosine_BB.device)
    logits_BB = (scale * cosine_BB).masked_fill(same_BB & ~diagonal_BB, float("-inf"))
    labels_B = torch.arange(len(logits_BB), device=logits_BB.device)
    return (functional.cross_entropy(logits_BB, labels_B) + functional.cross_entropy(logits_BB.T, labels_B)) / 2


class Contrastive(Objective):
    """Translations of all languages with the hub, mixed in one batch."""

    def __init__(self, config: ContrastiveConfig, materials: Materials) -> None:
        super().__init__(config, materials)
        self.config = config
        read = {"words": materials.dictionary, "induced": materials.induced, "sentences": materials.parallel}[
            config.pairs
        ]
        self.pairs = [read(code) for code in materials.languages if code != materials.hub]
        self.shares = language_shares([len(source) for source, _ in self.pairs], config.temperature)

    def batch(self, step: int) -> Batch:
        import torch

        generator = self.generator(step)
        chosen = generator.choice(len(self.pairs), size=self.config.batch_size, p=self.shares)
        rows = [(language, generator.integers(len(self.pairs[language][0]))) for language in chosen]
        batch: Batch = {}
        same_BB = torch.zeros(len(rows), len(rows), dtype=torch.bool)
        for side, name in enumerate(("source", "target")):
            texts = [self.pairs[language][side][row] for language, row in rows]
            batch[f"{name}_ids"], batch[f"{name}_mask"], batch[f"{name}_pooled"] = self.encode(texts)
            numbers = torch.tensor([texts.index(text) for text in texts])
            same_BB |= numbers.unsqueeze(0) == numbers.unsqueeze(1)
        return batch | {"same": same_BB}

    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        from babelray.encoder.pool import mean_pool

        source_BD, target_BD = (
            mean_pool(
                model.base_model(
                    input_ids=batch[f"{side}_ids"], attention_mask=batch[f"{side}_mask"]
                ).last_hidden_state,
                batch[f"{side}_pooled"],
            )
            for side in ("source", "target")
        )
        return ranking_loss(source_BD, target_BD, batch["same"], self.config.scale)
