"""The recipe: the typed, strict YAML that describes a whole run. It only composes the components' own configs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, ValidationError, model_validator

from babelray import languages
from babelray.errors import RecipeError
from babelray.extraction.method import AnyExtractionMethod, default_method
from babelray.languages import Language
from babelray.recipe.align import AlignConfig
from babelray.recipe.corpus import CorpusConfig
from babelray.recipe.encoder import EncoderConfig
from babelray.recipe.evaluate import EvaluateConfig
from babelray.recipe.expose import ExposeConfig
from babelray.recipe.map import MapConfig
from babelray.recipe.problems import describe_problems
from babelray.recipe.run import NAME, Run
from babelray.recipe.stitch import StitchConfig
from babelray.recipe.values import set_value
from babelray.training.config import TrainingConfig

REGISTERED = NAME.rstrip("$") + r"(@[A-Za-z][A-Za-z0-9_-]*)?$"
"""A name, optionally with an alias."""


class Recipe(Run):
    """A whole run, from text to report."""

    kind: ClassVar[str] = "recipe"

    languages: list[str] = Field(min_length=1)
    """Codes of the languages, `babelray languages` lists them."""
    extra_languages: list[Language] = Field(default_factory=list)
    """Languages beyond the 40, or other settings for one of them."""
    hub: str = "en"
    """The language that all others are mapped to and compared with."""
    data: str = "data"
    """The replacement of `{data}` in this recipe's paths, so that one recipe works wherever the data are."""
    corpus: CorpusConfig
    encoder: EncoderConfig
    extract: AnyExtractionMethod = Field(default_factory=default_method)
    align: AlignConfig = AlignConfig()
    pretrain: TrainingConfig | None = None
    """Continued pre-training. Null: none, and then the run has no evaluation either."""
    expose: ExposeConfig | None = None
    """Fine-tuning on dictionary entries, and interpolation with static vectors. Null: none."""
    stitch: StitchConfig | None = None
    """Stitching an encoder of the hub to the static vectors of other languages. Null: none."""
    map: MapConfig | None = None
    """Mapping of words in context, by several methods. Null: none."""
    evaluate: EvaluateConfig = EvaluateConfig()
    register_as: str | None = Field(None, pattern=REGISTERED)
    """Name of the trained encoder in MLflow's model registry, such as `babel` or `babel@champion`, which
    `models:/babel@champion` then loads. The alias is `newest` unless one is given. Null: it is not registered."""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The variants to compare: for each one the values that it changes, by dotted path. `babelray run` then trains and
    scores one encoder for each variant and seed, all from the same start."""
    seeds: list[int] = Field(default=[1], min_length=1)
    """Seeds of the variants' training."""

    @model_validator(mode="after")
    def _check_languages(self) -> Recipe:
        if self.hub not in self.languages:
            raise ValueError(f"the hub {self.hub!r} is not among the languages")
        languages.resolve(self.languages, self.extra_languages)
        return self

    @model_validator(mode="after")
    def _check_alias(self) -> Recipe:
        if self.register_as and re.search(r"@(latest|v[0-9]+)$", self.register_as, re.IGNORECASE):
            raise ValueError("register_as: MLflow reserves the aliases latest, v1, v2, …")
        return self

    @model_validator(mode="after")
    def _check_variants(self) -> Recipe:
        if self.variants and self.pretrain is None:
            raise ValueError("variants need a key `pretrain`: they are trained")
        for name in self.variants:
            if not re.fullmatch(NAME, name):
                raise ValueError(f"the variant {name!r} needs a name of letters, digits, dots and hyphens")
            try:
                self.variant(name, self.seeds[0])
            except ValidationError as error:
                problems = describe_problems(error, Recipe, self._variant_values(name, self.seeds[0]))
                raise ValueError(f"variant {name}: {problems}") from None
            except RecipeError as error:
                raise ValueError(f"variant {name}: {error.problem}") from None
        return self

    @property
    def registered_name(self) -> str | None:
        return self.register_as

    def variations(self) -> Mapping[tuple[str, int], Recipe]:
        """The recipe of each variant and seed."""
        return {(name, seed): self.variant(name, seed) for name in self.variants for seed in self.seeds}

    def variant(self, name: str, seed: int) -> Recipe:
        """The recipe of one variant and seed."""
        return Recipe.model_validate(self._variant_values(name, seed))

    def _variant_values(self, name: str, seed: int) -> dict[str, Any]:
        data = self.model_dump(mode="json", exclude={"variants", "seeds"}, by_alias=True)
        for dotted, value in self.variants[name].items():
            set_value(data, dotted, value)
        data["pretrain"]["seed"] = seed
        run = {"name": f"{self.name}-{name}-{seed}", "experiment": self.experiment or self.name, "register_as": None}
        return data | run

    def resolved_languages(self) -> dict[str, Language]:
        return languages.resolve(self.languages, self.extra_languages)
