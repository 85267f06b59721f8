"""Sentences and their translations as vectors of words: the base of the objectives that align words in context.

    L = A + λ Σ_j ‖c(j) − c₀(j)‖²

A is a subclass's loss of the words of a sentence and of its translation. The second term keeps the vectors of the hub's
words c near those of the initial encoder, c₀ (Cao et al., 2020; Alqahtani et al., 2021, section 4.3); it is summed over
the words of a sentence, as in both papers.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from babelray.objectives.objective import (
    Batch,
    Examples,
    Objective,
    ObjectiveConfig,
    TrainingData,
    subword_tensors,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import Tensor
    from transformers import PreTrainedModel


class SentencePairsConfig(ObjectiveConfig):
    """The options of objectives on sentence pairs."""

    batch_size: int = Field(48, ge=1)
    """Sentence pairs per step, over all workers and accumulated parts."""
    level: Literal["words", "subwords"] = "words"
    """What is aligned."""
    word: Literal["last", "mean"] = "last"
    """The vector of a word: that of its last subword, as in both papers, or the mean over its subwords."""
    regulariser: float = Field(1.0, ge=0)
    """λ: the weight of the second term, which keeps the hub's words where they were."""


def drift(current_BWD: Tensor, initial_BWD: Tensor, mask_BW: Tensor) -> Tensor:
    """Σ_j ‖c(j) − c₀(j)‖² of each sentence (B,)."""
    return ((current_BWD - initial_BWD).float().square().sum(-1) * mask_BW).sum(1)


class SentencePairs(Objective):
    """Sentences of all languages with their translations in the hub."""

    def __init__(self, config: SentencePairsConfig, training_data: TrainingData, sizes: Mapping[str, int]) -> None:
        super().__init__(config, training_data, sizes)
        self.pair_options = config
        self.initial = training_data.initial_encoder() if config.regulariser else None

    def start(self, device: torch.device) -> None:
        if self.initial is not None:
            self.initial.to(device)

    @abstractmethod
    def pair(self, code: str, row: int) -> tuple[str, str]:
        """A sentence and its translation."""

    @abstractmethod
    def alignment(self, source_BSD: Tensor, target_BTD: Tensor, batch: Batch) -> Tensor:
        """A of each sentence pair (B,), from the vectors of its words."""

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        codes = [code for code, _ in examples]
        pairs = [self.pair(*example) for example in examples]
        batch: Batch = {"language": self.language_numbers(codes)}
        for side, name in enumerate(("source", "target")):
            texts = [pair[side] for pair in pairs]
            languages = codes if name == "source" else [self.training_data.hub] * len(codes)
            batch |= {f"{name}_{key}": tensor for key, tensor in self._side(languages, texts).items()}
        return batch

    def _side(self, codes: list[str], texts: list[str]) -> Batch:
        from babelray.encoder.words import word_pools

        encoded = self.tokenize(texts)
        ids_BT, attended_BT, subwords_BT = subword_tensors(encoded)
        batch = {"ids": ids_BT, "mask": attended_BT, "words": subwords_BT}
        if self.pair_options.level == "words":
            tokens = [self.words_of(code, text) for code, text in zip(codes, texts, strict=True)]
            offsets_BT2 = np.array([encoding.offsets for encoding in encoded.encodings])
            batch["pool"], batch["words"] = word_pools(
                texts, tokens, offsets_BT2, subwords_BT.numpy(), self.pair_options.word
            )
        return batch

    def words_of(self, code: str, text: str) -> list[str]:
        return self.training_data.words_of(code, text)

    def loss_terms(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        import torch

        source_BSD, target_BTD = (_words(model.base_model, batch, side) for side in ("source", "target"))
        terms_B = self.alignment(source_BSD, target_BTD, batch)
        if self.initial is None:
            return terms_B
        with torch.no_grad():
            initial_BTD = _words(self.initial, batch, "target")
        return terms_B + self.pair_options.regulariser * drift(target_BTD, initial_BTD, batch["target_words"])


def _words(encoder: PreTrainedModel, batch: Batch, side: str) -> Tensor:
    """Vectors of the words, or of the subwords, of one side (B, W, D)."""
    from babelray.encoder.pool import read_by_length

    hidden_BTD = read_by_length(encoder, batch[f"{side}_ids"], batch[f"{side}_mask"])
    if f"{side}_pool" not in batch:
        return hidden_BTD
    return batch[f"{side}_pool"].to(hidden_BTD.dtype) @ hidden_BTD
