"""What an objective is: a batch for a step, and a loss of that batch.

A batch depends only on (seed, objective, step, rank), never on what came before: a run that resumes at a
step draws the batches it would have drawn.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pydantic import Field

from babelray.config import Config

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

Batch = dict[str, "Tensor"]


class ObjectiveConfig(Config):
    """What every objective's config has."""

    kind: str
    name: str | None = None
    """What it is called in logs and plots, when a kind is used twice; the kind by default."""
    weight: float = Field(1.0, gt=0)
    """Its share of the sum that is minimised."""

    @property
    def label(self) -> str:
        return self.name or self.kind


class Materials(Protocol):
    """What objectives draw from; read when first asked for."""

    languages: list[str]
    hub: str
    seed: int
    rank: int
    max_tokens: int

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase: ...

    def sentences(self, code: str) -> list[str]: ...

    def parallel(self, code: str) -> tuple[list[str], list[str]]:
        """Training sentences of a language and their translations in the hub."""

    def dictionary(self, code: str) -> tuple[list[str], list[str]]:
        """Training words of a language and their translations in the hub."""

    def induced(self, code: str) -> tuple[list[str], list[str]]:
        """Words of a language and those of the hub that the align stage found to translate them."""

    def vectors(self, code: str) -> tuple[list[str], Tensor]:
        """Aligned word vectors of a language."""

    def initial_encoder(self) -> PreTrainedModel:
        """The encoder as it was before training, frozen."""


class Objective(ABC):
    """A training loss with its data."""

    def __init__(self, config: ObjectiveConfig, materials: Materials) -> None:
        self.label = config.label
        self.weight = config.weight
        self.materials = materials

    def generator(self, step: int) -> np.random.Generator:
        """The random numbers of this objective at this step on this worker."""
        return np.random.default_rng([self.materials.seed, zlib.crc32(self.label.encode()), step, self.materials.rank])

    def tokenize(self, texts: list[str], others: list[str] | None = None) -> BatchEncoding:
        """Texts as subwords, padded; with `others` each is read together with its other, as the tokenizer joins two."""
        return self.materials.tokenizer(
            texts,
            others,
            padding=True,
            truncation=True,
            max_length=self.materials.max_tokens,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )

    def encode(self, texts: list[str], others: list[str] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Subwords (B, T), the attention mask, and where subwords stand that are neither special nor padding."""
        return parts(self.tokenize(texts, others))

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """The tensors of this worker's part of a step."""

    @abstractmethod
    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """A scalar."""


def parts(encoded: BatchEncoding) -> tuple[Tensor, Tensor, Tensor]:
    """What `Objective.encode` gives, of texts that are tokenized already."""
    attended = encoded["attention_mask"]
    return encoded["input_ids"], attended, attended.bool() & (encoded["special_tokens_mask"] == 0)


def language_shares(sizes: list[int], temperature: float) -> np.ndarray:
    """How often each language is drawn: p ∝ n^temperature (1: as the data, 0: all alike).

    >>> language_shares([100, 1], temperature=0.5).round(2).tolist()
    [0.91, 0.09]
    """
    weights = np.asarray(sizes, dtype=float) ** temperature
    return weights / weights.sum()
