"""How the languages' vectors are brought into one space."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from babelray.config import Config
from babelray.mapping.methods import Method, Towards


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


class MuseConfig(Config):
    """A rotation found by a game against a discriminator, then refined; defaults as published where they are."""

    epochs: int = Field(5, ge=1)
    steps: int = Field(31_250, ge=1)
    """Steps of the mapping in an epoch."""
    batch: int = Field(32, ge=1)
    """Words of each language in a step."""
    hidden: int = Field(2048, ge=1)
    """Units of each of the discriminator's two hidden layers."""
    input_dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the discriminator's input that is dropped."""
    smoothing: float = Field(0.2, ge=0, lt=0.5)
    """How far the discriminator's labels are from 0 and 1."""
    discriminator_steps: int = Field(5, ge=1)
    """Steps of the discriminator for each of the mapping."""
    learning_rate: float = Field(0.1, gt=0)
    decay: float = Field(0.95, gt=0, le=1)
    """What is left of the learning rate after an epoch; it is halved too when the criterion falls."""
    orthogonality: float = Field(0.01, ge=0)
    """How strongly each step pulls the mapping toward a rotation."""
    frequent: int = Field(50_000, ge=2)
    """Frequent words that the discriminator sees, and among which translations are looked for."""
    criterion_words: int = Field(10_000, ge=1)
    """Frequent source words whose translations say how good a mapping is."""
    csls: int = Field(10, ge=0)
    refinements: int = Field(5, ge=0)
    refine_words: int = Field(15_000, ge=2)
    """Frequent words among which a refinement looks for its pairs."""


class InductionConfig(Config):
    """The dictionary that two sets of vectors in one space make, by CSLS."""

    direction: Literal["mutual", "forward", "backward", "union"] = "mutual"
    """Words that are each other's best translations; each word's best; each hub word's; or both of these."""
    words: int = Field(20_000, ge=2)
    """Frequent words of each side that are looked at."""
    csls: int = Field(10, ge=0)
    min_confidence: float | None = None
    """The least CSLS of a pair; above 0 two words are nearer to each other than to their neighbourhoods."""


class MappingConfig(Config):
    """How one space is mapped to another."""

    method: Method = "procrustes"
    """`procrustes`: the best rotation. `least-squares`: the best linear mapping. `rcsls`: one trained for CSLS.
    `vecmap`: in steps, with self-learning. `muse`: a rotation, refined by the translations that it finds."""
    ridge: float = Field(0.0, ge=0)
    """`least-squares`: how strongly the mapping is held …"""
    towards: Towards = "zero"
    """… near to zero, or to the identity: where both sides come from one encoder, they agree to begin with."""
    rcsls: RcslsConfig = RcslsConfig()
    vecmap: VecMapConfig = VecMapConfig()
    muse: MuseConfig = MuseConfig()

    @property
    def unsupervised(self) -> bool:
        """Whether the method can do without a dictionary."""
        return self.method == "muse" or (self.method == "vecmap" and self.vecmap.self_learning)


class AlignConfig(MappingConfig):
    """All languages are mapped to the hub."""

    dictionary: Literal["train", "identical", "induced", "none"] = "train"
    """What the mapping learns from: the training dictionary, the words that are spelt alike, a dictionary induced
    without supervision (by `vecmap`, from the vectors at `induced_from`), or nothing (`vecmap` and `muse`)."""
    induced_from: str | None = None
    """Other vectors from which dictionaries are induced, as `folder/{lang}.vec`; null for those of the run itself."""
    through: dict[str, str] = Field(default_factory=dict)
    """Languages that are mapped to another one and with it to the hub, as `{af: nl}`."""
    joint: int = Field(0, ge=0)
    """Rounds in which all languages are turned towards their common mean, after each was mapped."""
    induction: InductionConfig = InductionConfig()
    """The dictionaries that the stage leaves, for other stages to use."""
    min_pairs: int = Field(8, ge=4)
    """With fewer dictionary pairs in both vocabularies a language keeps its own space, and the run says so."""
    select: bool = True
    """Keep a language's vectors as extracted where a mapping does worse on held-back pairs of what it learns from."""

    @model_validator(mode="after")
    def _fits_together(self) -> AlignConfig:
        if self.dictionary == "none" and not self.unsupervised:
            raise ValueError("dictionary: none needs method: muse, or vecmap with self_learning")
        if self.induced_from is not None and (self.dictionary != "induced" or "{lang}" not in self.induced_from):
            raise ValueError("induced_from needs dictionary: induced, and {lang} in it")
        if self.vecmap.reweight == "symmetric" or self.vecmap.dimensions is not None:
            raise ValueError(
                "vecmap: languages that share the hub's space need reweight: source or none, all dimensions"
            )
        for code, other in self.through.items():
            if other in self.through or code == other:
                raise ValueError(f"through: {code} goes through {other}, which does not go to the hub itself")
        return self
