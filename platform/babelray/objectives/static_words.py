"""Words with their aligned static vectors, encoded alone: what the objectives on static vectors draw and compare.

Words are drawn from the static vectors of all languages, encoded by themselves, and mean-pooled over their own
subwords: neither special tokens nor padding. No parallel text is needed. The gradient flows to the encoder alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from babelray.objectives.objective import Batch, Examples, Materials, Objective, ObjectiveConfig

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from transformers import PreTrainedModel


class StaticWordsConfig(ObjectiveConfig):
    """What objectives on static vectors share."""

    batch_size: int = Field(1024, ge=2)
    """Words a step, over all workers and accumulated parts."""


class StaticWords(Objective):
    """Words of all languages and their aligned static vectors; a subclass says how they are compared."""

    def __init__(self, config: StaticWordsConfig, materials: Materials) -> None:
        self.static = {code: materials.vectors(code) for code in materials.languages}
        super().__init__(config, materials, {code: len(words) for code, (words, _) in self.static.items()})

    def make(self, examples: Examples, generator: np.random.Generator) -> Batch:
        ids_BT, mask_BT, words_BT = self.encode([self.static[code][0][row] for code, row in examples])
        languages_B = self.language_numbers([code for code, _ in examples])
        return {"ids": ids_BT, "mask": mask_BT, "pooled": words_BT, "language": languages_B}

    def static_vectors(self, examples: Examples) -> Tensor:
        """The static vectors (B, E) of words."""
        import torch

        return torch.stack([self.static[code][1][row] for code, row in examples])

    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The encoder's vectors (B, D) of a batch's words."""
        from babelray.encoder.pool import mean_pool, read_by_length

        return mean_pool(read_by_length(model.base_model, batch["ids"], batch["mask"]), batch["pooled"])
