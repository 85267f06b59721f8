"""Translation language modelling: masked language modelling on a sentence and its translation, read together.

The loss is that of `mlm`, on ⟨s⟩ sentence ⟨/s⟩⟨/s⟩ translation ⟨/s⟩ with subwords masked on both sides, so that a
masked word can be inferred from its translation (Conneau and Lample, 2019). Their models also restart positions and
mark the language of each side; encoders of the XLM-R family have neither, and neither is added here.

Use it where there is parallel text, as the baseline of objectives that align more directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from babelray.objectives.mlm import masked_batch, mlm_terms
from babelray.objectives.objective import (
    OBJECTIVES,
    Batch,
    Examples,
    Need,
    Objective,
    ObjectiveConfig,
    TrainingData,
)

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from transformers import PreTrainedModel


@OBJECTIVES.register
class TlmConfig(ObjectiveConfig):
    """Masked subwords of a sentence and its translation, read together, are predicted from both."""

    title: ClassVar[str] = "Translation language modelling"
    needs: ClassVar[tuple[Need, ...]] = ("parallel",)

    kind: Literal["tlm"] = "tlm"
    batch_size: int = Field(32, ge=1)
    """Sentence pairs per step, over all workers and accumulated parts."""
    mask: float = Field(0.15, gt=0, lt=1)
    """Share of the subwords that are predicted."""

    def build(self, training_data: TrainingData) -> Tlm:
        return Tlm(self, training_data)


class Tlm(Objective):
    """Sentences of all languages with their translations in the hub, in either order."""

    def __init__(self, config: TlmConfig, training_data: TrainingData) -> None:
        self.config = config
        self.pairs = {
            code: training_data.parallel(code) for code in training_data.languages if code != training_data.hub
        }
        super().__init__(config, training_data, {code: len(sources) for code, (sources, _) in self.pairs.items()})

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        swapped = generator.integers(2, size=len(examples)).tolist()
        firsts, seconds = (
            [self.pairs[code][side ^ swap][row] for (code, row), swap in zip(examples, swapped, strict=True)]
            for side in (0, 1)
        )
        return masked_batch(self, examples, *self.encode(firsts, seconds), self.config.mask, generator)

    def loss_terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        return mlm_terms(model, batch["ids"], batch["mask"], batch["labels"])
