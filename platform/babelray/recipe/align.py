"""How the languages' vectors are brought into one space."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from babelray.config import Config
from babelray.mapping.dictionary import InductionConfig
from babelray.mapping.method import MAPPING_METHODS, AnyMappingMethod


class AlignConfig(Config):
    """All languages are mapped to the hub."""

    mapping: AnyMappingMethod = Field(default_factory=lambda: MAPPING_METHODS.parse("procrustes"))
    """The mapping method, by its name or with its settings: `{method: vecmap, cutoff: 10000}`."""
    dictionary: Literal["train", "identical", "induced", "none"] = "train"
    """The supervision of the mapping: the training dictionary, the words that are spelt alike, a dictionary induced
    without supervision (by `induced_by`, from the vectors at `induced_from`), or nothing."""
    limit: int | None = Field(None, ge=1)
    """`train`: the number of entries of each language that are used, the first ones, in most
    dictionaries the most frequent words; null for all."""
    induced_from: str | None = None
    """Other vectors from which dictionaries are induced, as `folder/{lang}.vec`; null for those of the run itself."""
    induced_by: AnyMappingMethod | None = None
    """`induced`: the mapping method that induces dictionaries, `vecmap` by default; it must work without one."""
    through: dict[str, str] = Field(default_factory=dict)
    """Languages that are mapped to another one and with it to the hub, as `{af: nl}`."""
    joint: int = Field(0, ge=0)
    """Rounds in which all languages are rotated towards their common mean, after each was mapped."""
    induction: InductionConfig = InductionConfig()
    """The dictionaries in the stage's artifact, for other stages to use."""
    min_pairs: int = Field(8, ge=4)
    """With fewer dictionary pairs in both vocabularies a language keeps its own space, and the run says so."""
    select: bool = True
    """Keep a language's vectors as extracted where a mapping does worse on held-out pairs of its dictionary."""

    @property
    def compared_words(self) -> int:
        """Frequent words of each side of which all similarities are held at once."""
        inducer = self.induced_by.compared_words if self.induced_by else 0
        return max(self.induction.words, self.mapping.compared_words, inducer)

    @model_validator(mode="before")
    @classmethod
    def _set_inducer(cls, data: object) -> object:
        """Only recipes that induce dictionaries depend on the method that does."""
        if isinstance(data, dict) and data.get("dictionary") == "induced" and data.get("induced_by") is None:
            return data | {"induced_by": "vecmap"}
        return data

    @model_validator(mode="after")
    def _mapping_fits_the_dictionary(self) -> Self:
        self.mapping.check_dictionary(self.dictionary != "none")
        if self.induced_by is not None and self.dictionary != "induced":
            raise ValueError(f"induced_by is for dictionary: induced, this is {self.dictionary}")
        if self.induced_by is not None and not self.induced_by.unsupervised:
            raise ValueError(f"induced_by: {self.induced_by.method} as it is set needs a dictionary itself")
        if self.limit is not None and self.dictionary != "train":
            raise ValueError(f"limit is for dictionary: train, this is {self.dictionary}")
        if self.induced_from is not None and (self.dictionary != "induced" or "{lang}" not in self.induced_from):
            raise ValueError("induced_from needs dictionary: induced, and {lang} in it")
        return self

    @model_validator(mode="after")
    def _languages_can_share_the_hub(self) -> Self:
        self.mapping.check_shared_hub()
        if not self.mapping.linear and (self.through or self.joint):
            raise ValueError(f"through and joint need a linear method, which {self.mapping.method} is not")
        for code, other in self.through.items():
            if other in self.through or code == other:
                raise ValueError(f"through: {code} goes through {other}, which does not go to the hub itself")
        return self
