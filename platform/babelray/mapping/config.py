"""How the languages' vectors are brought into one space."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from babelray.config import Config


class VecMapConfig(Config):
    """Both spaces mapped in steps; defaults as published."""

    self_learning: bool = True
    """Whether the dictionary is only where to start; without it the mapping is supervised."""
    reweight: Literal["symmetric", "source", "none"] = "source"
    """Which side gets the correlations as weights; `symmetric`, as published, is for two languages by themselves."""
    dimensions: int | None = Field(None, ge=1)
    """Dimensions to keep, those that correlate most first; null for all."""
    cutoff: int = Field(20_000, ge=2)
    """Frequent words that self-learning looks at."""
    start_words: int = Field(4000, ge=2)
    """Frequent words whose similarities make the first dictionary when there is none."""
    csls: int = Field(10, ge=0)
    keep: float = Field(0.1, gt=0, le=1)
    """Share of the similarities that is looked at in the beginning; it doubles when the objective stalls."""
    threshold: float = Field(1e-6, ge=0)
    """A smaller gain of the objective is none."""
    patience: int = Field(50, ge=1)
    """Iterations without a gain that make it stall."""
    max_iterations: int = Field(1000, ge=1)


class RcslsConfig(Config):
    """A mapping trained for CSLS; defaults as published."""

    iterations: int = Field(10, ge=1)
    learning_rate: float = Field(1.0, gt=0)
    neighbours: int = Field(10, ge=1)
    words: int = Field(50_000, ge=2)
    """Frequent words among which neighbours are looked for."""
    spectral: bool = False
    """Whether no direction may be stretched."""


class AlignConfig(Config):
    """All languages are mapped to the hub."""

    method: Literal["procrustes", "least-squares", "rcsls", "vecmap"] = "procrustes"
    """`procrustes`: the best rotation. `least-squares`: the best linear mapping. `rcsls`: one trained for CSLS.
    `vecmap`: in steps, with self-learning."""
    dictionary: Literal["train", "identical", "none"] = "train"
    """What the mapping learns from: the training dictionary, the words that are spelt alike, or nothing (`vecmap`)."""
    ridge: float = Field(0.0, ge=0)
    """`least-squares`: how strongly large weights are held down."""
    rcsls: RcslsConfig = RcslsConfig()
    vecmap: VecMapConfig = VecMapConfig()
    min_pairs: int = Field(8, ge=4)
    """With fewer dictionary pairs in both vocabularies a language keeps its own space, and the run says so."""
    select: bool = True
    """Keep a language's vectors as extracted where a mapping does worse on held-back training pairs."""

    @model_validator(mode="after")
    def _the_method_can_do_it(self) -> AlignConfig:
        if self.dictionary == "none" and (self.method != "vecmap" or not self.vecmap.self_learning):
            raise ValueError("dictionary: none needs method: vecmap with self_learning")
        if self.vecmap.reweight == "symmetric" or self.vecmap.dimensions is not None:
            raise ValueError(
                "vecmap: languages that share the hub's space need reweight: source or none, all dimensions"
            )
        return self
