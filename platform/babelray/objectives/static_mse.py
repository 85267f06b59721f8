"""Mean squared error between the encoder's vectors of single words and their aligned static vectors.

    L = 1/(B D) Σ_i ‖ w_i − s_i ‖²

with w_i the mean-pooled vector of a word that is encoded alone and s_i its static vector (Hämmerl et al., 2022,
section 4.1). It forces the encoder into the coordinates of the static vectors, which must have the same width: in the
paper it breaks sentence retrieval, while `static-dcca`, which only correlates the two, improves it. Use it as a
baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from babelray.errors import TrainingError
from babelray.objectives.objective import OBJECTIVES
from babelray.objectives.static_words import StaticWords, StaticWordsConfig

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from transformers import PreTrainedModel

    from babelray.objectives.objective import Batch, Examples, TrainingData


@OBJECTIVES.register
class StaticMseConfig(StaticWordsConfig):
    """The vectors of single words approach aligned static vectors of the same width."""

    title: ClassVar[str] = "Static MSE"

    kind: Literal["static-mse"] = "static-mse"

    def build(self, training_data: TrainingData) -> StaticMse:
        return StaticMse(self, training_data)


def error_terms(words_BD: Tensor, static_BD: Tensor) -> Tensor:
    """The mean squared error of each word (B,)."""
    if words_BD.shape != static_BD.shape:
        raise TrainingError(
            f"static-mse: the encoder is {words_BD.shape[1]} wide, the static vectors are {static_BD.shape[1]}",
            "Use static-dcca, or vectors that were extracted from an encoder of the same width.",
        )
    return (words_BD.float() - static_BD.float()).square().mean(1)


class StaticMse(StaticWords):
    """The distance of words to their static vectors."""

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        return super().collate(examples, generator) | {"static": self.static_vectors(examples)}

    def loss_terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        return error_terms(self.vectors(model, batch), batch["static"])
