"""Which encoder a run starts from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from babelray.config import Config
from babelray.training.config import TrainingConfig


class ScratchConfig(Config):
    """A small encoder and its tokenizer, trained on the run's own corpus from a random start."""

    architecture: Literal["xlm-roberta", "roberta-prelayernorm"] = "roberta-prelayernorm"
    """Pre-LayerNorm leaves the unigram plateau much sooner at small sizes; XLM-R's own layout is the other."""
    vocabulary: int = Field(4000, ge=300)
    """Pieces in the SentencePiece vocabulary."""
    byte_fallback: bool = True
    """Whether a character outside the vocabulary is read as its bytes (256 pieces) or as unknown."""
    tokenizer_sentences: int = Field(200_000, ge=1)
    """Sentences that the vocabulary is learned from, at most."""
    tokenizer_temperature: float = Field(0.3, ge=0, le=1)
    """How languages share them: 1 by their size, 0 all alike."""
    width: int = Field(128, ge=8)
    layers: int = Field(4, ge=1)
    heads: int = Field(4, ge=1)
    max_tokens: int = Field(128, ge=16)
    """Longest input, in subwords."""
    dropout: float = Field(0.0, ge=0, lt=1)
    embeddings: Literal["random", "cooccurrence"] = "random"
    """What the vectors of subwords start from: nothing, or the company that they keep in text and translations."""
    training: TrainingConfig

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> ScratchConfig:
        if self.width % self.heads:
            raise ValueError(f"heads ({self.heads}) must divide width ({self.width})")
        return self


class EncoderConfig(Config):
    """Either an encoder that exists (`path`), or one made here (`scratch`)."""

    path: str | None = None
    """A Hugging Face name, a folder made by `save_pretrained`, `models:/NAME@ALIAS` of MLflow's registry, or
    `babelray-mini`, which is shipped."""
    scratch: ScratchConfig | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> EncoderConfig:
        if (self.path is None) == (self.scratch is None):
            raise ValueError("give either `path` or `scratch`")
        return self
