"""How the languages' vectors are brought into one space."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from babelray.config import Config
from babelray.mapping.methods import Method, Normalise, Select, Towards


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


class EpochsConfig(Config):
    """A mapping that is trained: for how long, and which epoch is kept."""

    epochs: int = Field(20, ge=1)
    batch: int = Field(32, ge=1)
    """Pairs in a step, or words of each language where there are no pairs."""
    learning_rate: float = Field(1e-4, gt=0)
    select: Select = "semantic"
    """The epoch that is kept: the best by the `semantic` or the `structural` criterion, which need no translations; the
    best on pairs that are held back (`validation`); or the `last`."""
    held_back: float = Field(0.1, gt=0, lt=1)
    """Share of the pairs that `validation` takes."""
    criterion_words: int = Field(10_000, ge=2)
    """Frequent words of each side that the criteria look at."""
    criterion_pairs: int = Field(30_000, ge=1)
    """The most confident of their translations, by which they judge."""
    csls: int = Field(10, ge=0)


class FcnnConfig(EpochsConfig):
    """A network of three layers; defaults as published."""

    hidden: int = Field(1024, ge=1)


class RealNvpConfig(EpochsConfig):
    """Two flows that meet in one Gaussian; defaults as published but for the first two."""

    batch: int = Field(128, ge=1)
    """Pairs in a step. Published is 32, with a learning rate of 1e-4; both are four times that here, to save time."""
    learning_rate: float = Field(4e-4, gt=0)
    layers: int = Field(2, ge=2)
    """Coupling layers of each flow."""
    hidden: int = Field(512, ge=1)
    """Units of a hidden layer of a coupling layer's network …"""
    depth: int = Field(2, ge=1)
    """… of which there are so many."""
    likelihood: float = Field(1e-4, ge=0)
    """How much the likelihood of both languages counts."""
    start: Literal["identity", "rotation"] = "identity"
    """Where the flows begin. Vectors of one encoder agree to begin with; others need the best rotation of the pairs."""


class GanRealNvpConfig(RealNvpConfig):
    """The same flows in a game with critics; defaults as published where they are."""

    batch: int = Field(32, ge=1)
    """Words of each language in a step."""
    learning_rate: float = Field(1e-6, gt=0)
    critic_learning_rate: float = Field(1e-4, gt=0)
    critic_steps: int = Field(5, ge=1)
    """Steps of the critics for each of the flows."""
    critic_hidden: int = Field(256, ge=1)
    """Units of each of a critic's two hidden layers."""
    frequent: int = Field(20_000, ge=2)
    """Frequent words that the game is played with."""

    @property
    def uses_dictionary(self) -> bool:
        return self.start == "rotation" or self.select == "validation"


class BootstrapConfig(Config):
    """Training again, `iterations` times, under a constraint on the translations that the mapping finds."""

    constraint: Literal["cross-correlation", "graph", "procrustes"] = "cross-correlation"
    iterations: int = Field(3, ge=1)
    """Published: 3 for real data, 10 in a simulated world."""
    first: Literal["method", "identity"] = "method"
    """What finds the first translations: the method, trained without constraint, or vectors as they are."""
    weight: float = Field(1.0, gt=0)
    """How much the constraint counts."""
    batch: int = Field(256, ge=2)
    """Pairs that it is computed on in a step."""
    words: int = Field(10_000, ge=2)
    """Frequent words of each side among which translations are looked for …"""
    pairs: int = Field(30_000, ge=2)
    """… of which the most confident are taken, if they are each other's best."""
    csls: int = Field(10, ge=0)


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
    `vecmap`: in steps, with self-learning. `muse`: a rotation, refined by the translations that it finds.
    `gbdd`: without the direction that tells the languages apart. `normalisation`: mean 0 and variance 1 in each
    language. Not linear: `fcnn`, a network; `real-nvp`, two flows that also model the densities; `gan-real-nvp`, the
    same without a dictionary."""
    normalise: Normalise = "unit"
    """Vectors get length 1, are centred, and get length 1 again; or they are only `centred`; or `none`. Where lengths
    count, translations are what is at a small distance, not a small angle. The method `normalisation` has its own."""
    ridge: float = Field(0.0, ge=0)
    """`least-squares`: how strongly the mapping is held …"""
    towards: Towards = "zero"
    """… near to zero, or to the identity: where both sides come from one encoder, they agree to begin with."""
    rcsls: RcslsConfig = RcslsConfig()
    vecmap: VecMapConfig = VecMapConfig()
    muse: MuseConfig = MuseConfig()
    gbdd_directions: int = Field(1, ge=1)
    """`gbdd`: directions that are subtracted."""
    fcnn: FcnnConfig = FcnnConfig()
    real_nvp: RealNvpConfig = RealNvpConfig()
    gan_real_nvp: GanRealNvpConfig = GanRealNvpConfig()
    bootstrap: BootstrapConfig | None = None
    """`muse` and `gan-real-nvp`: train again on what they find. It takes the place of `muse`'s refinements."""

    @property
    def unsupervised(self) -> bool:
        """Whether the method can do without a dictionary."""
        if self.method == "vecmap":
            return self.vecmap.self_learning
        return self.method in ("muse", "normalisation", "gan-real-nvp")

    @property
    def trained(self) -> EpochsConfig | None:
        """The settings of the network that is trained; None for the methods that are linear."""
        networks = {"fcnn": self.fcnn, "real-nvp": self.real_nvp, "gan-real-nvp": self.gan_real_nvp}
        return networks.get(self.method)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.normalise != "unit" and self.method in ("rcsls", "vecmap"):
            raise ValueError(f"method: {self.method} needs normalise: unit")
        if self.bootstrap is not None and self.method not in ("muse", "gan-real-nvp"):
            raise ValueError("bootstrap is for method: muse and gan-real-nvp")
        return self


class AlignConfig(MappingConfig):
    """All languages are mapped to the hub."""

    dictionary: Literal["train", "identical", "induced", "none"] = "train"
    """What the mapping learns from: the training dictionary, the words that are spelt alike, a dictionary induced
    without supervision (by `vecmap`, from the vectors at `induced_from`), or nothing (`vecmap` and `muse`)."""
    limit: int | None = Field(None, ge=1)
    """`train`: only the first so many entries of each language, the most frequent words in most dictionaries; null for
    all."""
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
            raise ValueError(
                "dictionary: none needs method: muse, or vecmap with self_learning, or normalisation or gan-real-nvp"
            )
        game = self.gan_real_nvp
        if self.method == "gan-real-nvp" and (self.dictionary == "none") == game.uses_dictionary:
            raise ValueError(
                "gan-real-nvp needs dictionary: none, but for start: rotation or select: validation another"
            )
        if self.method == "gbdd":
            raise ValueError(
                "method: gbdd changes the hub too, for every language in another way: use it for two files"
            )
        if self.normalise != "unit":
            raise ValueError("normalise: the hub's space is of vectors of length 1; use others for two files")
        if self.trained is not None and (self.through or self.joint):
            raise ValueError(f"through and joint need a linear method, which {self.method} is not")
        if self.limit is not None and self.dictionary != "train":
            raise ValueError(f"limit is for dictionary: train, this is {self.dictionary}")
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
