"""Translation language modelling: masked language modelling on a sentence and its translation, read together.

The loss is that of `mlm`, on ⟨s⟩ sentence ⟨/s⟩⟨/s⟩ translation ⟨/s⟩ with subwords hidden on both sides, so that what is
hidden in one language can be found in the other (Conneau and Lample, 2019). Their models also restart positions and
mark the language of each side; encoders of the XLM-R family have neither, and neither is added here.

Use it where there is parallel text, as the baseline of objectives that align more directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.objectives.mlm import masked, mlm_terms
from babelray.objectives.objective import Batch, Examples, Materials, Objective, ObjectiveConfig

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from transformers import PreTrainedModel


class TlmConfig(ObjectiveConfig):
    kind: Literal["tlm"] = "tlm"
    batch_size: int = Field(32, ge=1)
    """Pairs of sentences a step, over all workers and accumulated parts."""
    mask: float = Field(0.15, gt=0, lt=1)
    """Share of the subwords that are to be predicted."""


class Tlm(Objective):
    """Sentences of all languages with their translations in the hub, in either order."""

    def __init__(self, config: TlmConfig, materials: Materials) -> None:
        self.config = config
        self.pairs = {code: materials.parallel(code) for code in materials.languages if code != materials.hub}
        super().__init__(config, materials, {code: len(sources) for code, (sources, _) in self.pairs.items()})

    def make(self, examples: Examples, generator: np.random.Generator) -> Batch:
        swapped = generator.integers(2, size=len(examples)).tolist()
        firsts, seconds = (
            [self.pairs[code][side ^ swap][row] for (code, row), swap in zip(examples, swapped, strict=True)]
            for side in (0, 1)
        )
        return masked(self, examples, *self.encode(firsts, seconds), self.config.mask, generator)

    def terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        return mlm_terms(model, batch["ids"], batch["mask"], batch["labels"])
