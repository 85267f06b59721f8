"""How static vectors are taken from the encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from babelray.config import Config


class X2StaticConfig(Config):
    """Prediction of words from their contexts; defaults as published."""

    context: Literal["sentence", "paragraph"] = "sentence"
    """What the encoder reads at once, and the mean of which is a word's context."""
    without_target: bool = True
    """Whether a word's own subwords are left out of its context."""
    start: Literal["zero", "random", "aggregate"] = "zero"
    """What the vectors are before training; `aggregate`: the mean over a word's occurrences, made small."""
    subsample: float | None = Field(5e-6, gt=0)
    """Words above this relative frequency are passed over now and then; null for none."""
    negatives: int = Field(10, ge=1)
    """Words that each occurrence is told from, drawn by the square root of frequency."""
    shared_negatives: int | None = Field(None, ge=1)
    """If set, so many negatives serve a whole batch, with the weight of `negatives`: cheaper."""
    learning_rate: float = Field(1e-3, gt=0)
    epochs: int = Field(1, ge=1)
    """The encoder runs once, however many there are: contexts are kept in half precision until the vectors are done."""
    min_steps: int = Field(2000, ge=1)
    """A language with little text goes over it again until so many steps are done."""
    batch_size: int = Field(128, ge=1)
    """Occurrences in a step."""


class ExtractConfig(Config):
    """Static vectors of every language's vocabulary, from one layer of the encoder."""

    method: Literal["x2static", "aggregate", "isolated", "given"] = "x2static"
    """`x2static`: learned from contexts. `aggregate`: the mean over a word's occurrences of its mean-pooled subwords
    (Bommasani et al., 2020). `isolated`: the word alone. `given`: not the encoder's at all, but files such as
    fastText's."""
    path: str | None = None
    """`given`: the files, with {lang} in their path: .vec, .txt or .bin, plain or .gz."""
    limit: int = Field(200_000, ge=2)
    """`given`: so many of a file's words are read, the most frequent ones, which come first."""
    layer: int = 6
    """Layer whose vectors are used; 0 is the embedding layer, negative numbers count from the last."""
    also_layers: list[int] | Literal["all"] = Field(default_factory=list)
    """`aggregate` and `isolated`: further layers in the same pass, written beside as `layer-N/`."""
    x2static: X2StaticConfig = X2StaticConfig()
    min_count: int = Field(1, ge=1)
    """Words that occur less often in the corpus get no vector; those of rare words are mostly noise."""
    remove_dimensions: int = Field(0, ge=0)
    """Rogue dimensions that are set to zero (Timkey and van Schijndel, 2021), counted from the largest."""
    standardise: bool = False
    """Whether every dimension gets mean 0 and variance 1 over the words of a language."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included."""
    block_sentences: int = Field(4096, ge=1)
    """Sentences that are worked on as a unit; a lost worker costs no more than the units it was at."""
    workers: int = Field(2, ge=1)
    """Worker processes; each language is spread over all of them."""
    zero_stage: Literal[0, 3] = 0
    """3: DeepSpeed shards the encoder over the workers, for one that is too large for one device."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`auto`: bf16 on GPUs, fp32 on CPUs."""

    @model_validator(mode="after")
    def _layers_fit_the_method(self) -> ExtractConfig:
        if self.also_layers and self.method == "x2static":
            raise ValueError("also_layers: x2static reads one layer; use aggregate or isolated for several")
        if (self.method == "given") != (self.path is not None) or "{lang}" not in (self.path or "{lang}"):
            raise ValueError("path: the method `given` needs a path with {lang} in it, and only that one takes it")
        return self
