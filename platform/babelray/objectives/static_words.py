"""Words with their aligned static vectors, encoded alone: what the objectives on static vectors draw and compare.

Words are drawn from the static vectors of all languages, encoded by themselves, and mean-pooled over their own
subwords: neither special tokens nor padding. No parallel text is needed. The gradient flows to the encoder alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from babelray.objectives.objective import Batch, Materials, Objective, ObjectiveConfig, language_shares

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class StaticWordsConfig(ObjectiveConfig):
    """What objectives on static vectors share."""

    batch_size: int = Field(512, ge=2)
    """Words per worker and step."""
    temperature: float = Field(0.7, ge=0, le=1)
    """How languages are drawn: 1 as their vocabularies, 0 all alike."""


class StaticWords(Objective):
    """Words of all languages against their aligned static vectors; a subclass says how they are compared."""

    def __init__(self, config: StaticWordsConfig, materials: Materials) -> None:
        super().__init__(config, materials)
        self.batch_size = config.batch_size
        self.vectors = [materials.vectors(code) for code in materials.languages]
        self.shares = language_shares([len(words) for words, _ in self.vectors], config.temperature)

    def batch(self, step: int) -> Batch:
        import torch

        generator = self.generator(step)
        chosen = generator.choice(len(self.vectors), size=self.batch_size, p=self.shares)
        rows = [(language, generator.integers(len(self.vectors[language][0]))) for language in chosen]
        ids_BT, mask_BT, words_BT = self.encode([self.vectors[language][0][row] for language, row in rows])
        return {
            "ids": ids_BT,
            "mask": mask_BT,
            "pooled": words_BT,
            "static": torch.stack([self.vectors[language][1][row] for language, row in rows]),
        }

    def words(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The encoder's vectors (B, D) of a batch's words."""
        from babelray.encoder.pool import mean_pool

        hidden_BTD = model.base_model(input_ids=batch["ids"], attention_mask=batch["mask"]).last_hidden_state
        return mean_pool(hidden_BTD, batch["pooled"])
