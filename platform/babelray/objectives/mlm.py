"""Masked language modelling: predict the masked subwords.

    L = −1/|M| Σ_{t ∈ M} log p(x_t | x̃)

where M holds 15 % of the positions, of which 80 % are replaced by the mask, 10 % by a random subword and
10 % unchanged (Devlin et al., 2019). The vocabulary's logits are computed only at the positions of M, which is
the same loss at a third to a half of the time.

Use it alone as the baseline that every alignment is compared with, and beside every other objective to
keep the encoder a language model (Hämmerl et al., 2022, section 4.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from babelray.objectives.objective import (
    OBJECTIVES,
    Batch,
    Examples,
    Need,
    Objective,
    ObjectiveConfig,
    TrainingData,
    subword_tensors,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding, PreTrainedModel


@OBJECTIVES.register
class MlmConfig(ObjectiveConfig):
    """Masked subwords of the text are predicted, which keeps the encoder a language model."""

    title: ClassVar[str] = "Masked language modelling"
    needs: ClassVar[tuple[Need, ...]] = ("text",)

    kind: Literal["mlm"] = "mlm"
    batch_size: int = Field(64, ge=1)
    """Sentences per step, over all workers and accumulated parts."""
    mask: float = Field(0.15, gt=0, lt=1)
    """Share of the subwords that are predicted."""
    whole_words: bool = False
    """Whether all subwords of a word are masked together: a part of a word is easily guessed from the rest."""

    def build(self, training_data: TrainingData) -> Mlm:
        return Mlm(self, training_data)


def mask_tokens(
    ids_BT: Tensor,
    maskable_BT: Tensor,
    mask_id: int,
    vocabulary: int,
    share: float,
    generator: np.random.Generator,
    words_BT: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Masked inputs and labels; labels are −100 where nothing is predicted. At least one position is chosen.

    `words_BT` numbers the words of each row, from 0 to T − 1: either all subwords of a word are chosen, or none.
    """
    import torch

    draws_BT = torch.from_numpy(generator.random(tuple(ids_BT.shape)))
    if words_BT is not None:
        draws_BT = draws_BT.gather(1, words_BT)
    chosen_BT = maskable_BT & (draws_BT < share)
    if not chosen_BT.any():
        chosen_BT = maskable_BT & (draws_BT == draws_BT[maskable_BT].min())
    kinds_BT = torch.from_numpy(generator.random(tuple(ids_BT.shape)))
    random_BT = torch.from_numpy(generator.integers(vocabulary, size=tuple(ids_BT.shape)))
    inputs_BT = torch.where(chosen_BT & (kinds_BT < 0.8), mask_id, ids_BT)
    inputs_BT = torch.where(chosen_BT & (kinds_BT >= 0.9), random_BT, inputs_BT)
    return inputs_BT, torch.where(chosen_BT, ids_BT, -100)


def word_numbers(encoded: BatchEncoding) -> Tensor:
    """The number of the word that each subword (B, T) belongs to; 0 for subwords of no word."""
    import torch

    rows = range(len(encoded["input_ids"]))
    return torch.tensor([[number or 0 for number in encoded.word_ids(row)] for row in rows])


def mlm_terms(model: PreTrainedModel, ids_BT: Tensor, mask_BT: Tensor, labels_BT: Tensor) -> Tensor:
    """Cross-entropy at each masked position; the vocabulary's logits are computed only there."""
    from torch.nn import functional

    from babelray.encoder.pool import read_by_length

    hidden_BTD = read_by_length(model.base_model, ids_BT, mask_BT)
    predicted_BT = labels_BT != -100
    logits_MV = language_modelling_head(model)(hidden_BTD[predicted_BT])
    return functional.cross_entropy(logits_MV.float(), labels_BT[predicted_BT], reduction="none")


def language_modelling_head(model: PreTrainedModel) -> PreTrainedModel:
    """The part of a masked language model above the encoder, as the BERT and RoBERTa families name it."""
    for name in ("lm_head", "cls"):
        if hasattr(model, name):
            return getattr(model, name)
    raise TypeError(f"{type(model).__name__} has no language-modelling head of a known name")


class Mlm(Objective):
    """MLM on the sentences of all languages."""

    def __init__(self, config: MlmConfig, training_data: TrainingData) -> None:
        self.config = config
        self.texts = {code: training_data.sentences(code) for code in training_data.languages}
        super().__init__(config, training_data, {code: len(texts) for code, texts in self.texts.items()})

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        encoded = self.tokenize([self.texts[code][row] for code, row in examples])
        words_BT = word_numbers(encoded) if self.config.whole_words else None
        ids_BT, mask_BT, maskable_BT = subword_tensors(encoded)
        return masked_batch(self, examples, ids_BT, mask_BT, maskable_BT, self.config.mask, generator, words_BT)

    def loss_terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        return mlm_terms(model, batch["ids"], batch["mask"], batch["labels"])


def masked_batch(
    objective: Objective,
    examples: Examples,
    ids_BT: Tensor,
    mask_BT: Tensor,
    maskable_BT: Tensor,
    share: float,
    generator: np.random.Generator,
    words_BT: Tensor | None = None,
) -> Batch:
    """A batch with masked subwords, each of which is a term of the loss."""
    tokenizer = objective.training_data.tokenizer
    inputs_BT, labels_BT = mask_tokens(
        ids_BT, maskable_BT, tokenizer.mask_token_id, len(tokenizer), share, generator, words_BT
    )
    languages_B = objective.language_numbers([code for code, _ in examples])
    rows_M = (labels_BT != -100).nonzero()[:, 0]
    return {"ids": inputs_BT, "mask": mask_BT, "labels": labels_BT, "language": languages_B[rows_M]}
