"""Words with their aligned static vectors: the base of the objectives on static vectors.

Words are drawn from the static vectors of all languages, encoded alone, and mean-pooled over their subwords without
special tokens. No parallel text is needed. The gradient flows to the encoder alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from babelray.objectives.objective import Batch, Examples, Need, Objective, ObjectiveConfig, TrainingData

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from transformers import PreTrainedModel


class StaticWordsConfig(ObjectiveConfig):
    """The options of objectives on static vectors."""

    needs: ClassVar[tuple[Need, ...]] = ("vectors",)

    batch_size: int = Field(1024, ge=2)
    """Words per step, over all workers and accumulated parts."""


class StaticWords(Objective):
    """Words of all languages and their aligned static vectors; a subclass compares them."""

    def __init__(self, config: StaticWordsConfig, training_data: TrainingData) -> None:
        self.static = {code: training_data.vectors(code) for code in training_data.languages}
        super().__init__(config, training_data, {code: len(words) for code, (words, _) in self.static.items()})

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        ids_BT, mask_BT, words_BT = self.encode([self.static[code][0][row] for code, row in examples])
        languages_B = self.language_numbers([code for code, _ in examples])
        return {"ids": ids_BT, "mask": mask_BT, "pooled": words_BT, "language": languages_B}

    def static_vectors(self, examples: Examples) -> Tensor:
        """The static vectors (B, E) of words."""
        import torch

        return torch.stack([self.static[code][1][row] for code, row in examples])

    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The encoder's vectors (B, D) of a batch's words."""
        from babelray.encoder.pool import mean_by_length

        return mean_by_length(model.base_model, batch["ids"], batch["mask"], batch["pooled"])
