"""Translation language modelling: masked language modelling on a sentence and its translation, read together.

The loss is that of `mlm`, on ⟨s⟩ sentence ⟨/s⟩⟨/s⟩ translation ⟨/s⟩ with subwords hidden on both sides, so that what is
hidden in one language can be found in the other (Conneau and Lample, 2019). Their models also restart positions and
mark the language of each side; encoders of the XLM-R family have neither, and neither is added here.

Use it where there is parallel text, as the baseline of objectives that align more directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.objectives.mlm import mask_tokens, mlm_loss
from babelray.objectives.objective import Batch, Materials, Objective, ObjectiveConfig, language_shares

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class TlmConfig(ObjectiveConfig):
    kind: Literal["tlm"] = "tlm"
    batch_size: int = Field(16, ge=1)
    """Pairs of sentences per worker and step."""
    mask: float = Field(0.15, gt=0, lt=1)
    """Share of the subwords that are to be predicted."""
    temperature: float = Field(0.7, ge=0, le=1)
    """How languages are drawn: 1 as the data, 0 all alike."""


class Tlm(Objective):
    """Sentences of all languages with their translations in the hub, in either order."""

    def __init__(self, config: TlmConfig, materials: Materials) -> None:
        super().__init__(config, materials)
        self.config = config
        self.pairs = [materials.parallel(code) for code in materials.languages if code != materials.hub]
        self.shares = language_shares([len(source) for source, _ in self.pairs], config.temperature)

    def batch(self, step: int) -> Batch:
        generator = self.generator(step)
        tokenizer = self.materials.tokenizer
        chosen = generator.choice(len(self.pairs), size=self.config.batch_size, p=self.shares)
        sides: tuple[list[str], list[str]] = ([], [])
        for language in chosen:
            row, swapped = generator.integers(len(self.pairs[language][0])), generator.integers(2)
            for side in (0, 1):
                sides[side].append(self.pairs[language][side ^ swapped][row])
        ids_BT, mask_BT, words_BT = self.encode(*sides)
        inputs_BT, labels_BT = mask_tokens(
            ids_BT, words_BT, tokenizer.mask_token_id, len(tokenizer), self.config.mask, generator
        )
        return {"ids": inputs_BT, "mask": mask_BT, "labels": labels_BT}

    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        return mlm_loss(model, batch["ids"], batch["mask"], batch["labels"])
