"""The recipe: the typed, strict YAML that describes a whole run. It only composes the components' own configs."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from babelray import languages
from babelray.config import Config
from babelray.encoder.config import EncoderConfig
from babelray.errors import BabelrayError, RecipeError
from babelray.evaluation.config import EvaluateConfig
from babelray.extraction.config import ExtractConfig
from babelray.languages import Language
from babelray.mapping.config import AlignConfig
from babelray.mapping.contextual import MapConfig
from babelray.run import NAME, Run
from babelray.stitching.config import StitchConfig
from babelray.text.config import CorpusConfig
from babelray.training.config import TrainingConfig
from babelray.training.exposure import ExposeConfig

REGISTERED = NAME.rstrip("$") + r"(@[A-Za-z][A-Za-z0-9_-]*)?$"
"""A name, and perhaps an alias."""


class Recipe(Run):
    """A whole run, from text to report."""

    languages: list[str] = Field(min_length=1)
    """Codes of the languages, `babelray languages` lists them."""
    extra_languages: list[Language] = Field(default_factory=list)
    """Languages beyond the 40, or other settings for one of them."""
    hub: str = "en"
    """The language that all others are mapped to and compared with."""
    data: str = "data"
    """What `{data}` stands for in this recipe's paths, so that one recipe serves wherever the data lie."""
    corpus: CorpusConfig
    encoder: EncoderConfig
    extract: ExtractConfig = ExtractConfig()
    align: AlignConfig = AlignConfig()
    pretrain: TrainingConfig | None = None
    """Continued pre-training; null: there is none, and then no evaluation and no report either."""
    expose: ExposeConfig | None = None
    """Tuning on dictionary entries, and mixing with static vectors; null: there is none."""
    stitch: StitchConfig | None = None
    """Stitching an encoder of the hub to the static vectors of other languages; null: there is none."""
    map: MapConfig | None = None
    """Mapping words in context, by several methods; null: there is none."""
    evaluate: EvaluateConfig = EvaluateConfig()
    register_as: str | None = Field(None, pattern=REGISTERED)
    """Name in MLflow's model registry for the encoder that pretrain leaves, such as `babel` or `babel@champion`; the
    alias is `newest` unless one is given. `models:/babel@champion` then stands for it. Null: it is not registered."""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """What is to be compared: for each variant the values that it changes, by their dotted paths. `babelray run` then
    trains and scores one encoder for each variant and seed, from the same start."""
    seeds: list[int] = Field(default=[1], min_length=1)
    """Seeds of the variants' training."""

    @model_validator(mode="after")
    def _hub_is_one_of_the_languages(self) -> Recipe:
        if self.hub not in self.languages:
            raise ValueError(f"the hub {self.hub!r} is not among the languages")
        languages.resolve(self.languages, self.extra_languages)
        return self

    @model_validator(mode="after")
    def _alias_is_free(self) -> Recipe:
        if self.register_as and re.search(r"@(latest|v[0-9]+)$", self.register_as, re.IGNORECASE):
            raise ValueError("register_as: MLflow keeps the aliases latest, v1, v2, … for itself")
        return self

    @model_validator(mode="after")
    def _variants_are_recipes(self) -> Recipe:
        if self.variants and self.pretrain is None:
            raise ValueError("variants are of pretrain, which is not there")
        for name in self.variants:
            if not re.fullmatch(NAME, name):
                raise ValueError(f"the variant {name!r} needs a name of letters, digits, dots and hyphens")
            try:
                self.variant(name, self.seeds[0])
            except ValidationError as error:
                raise ValueError(f"variant {name}: {_describe(error)}") from None
            except RecipeError as error:
                raise ValueError(f"variant {name}: {error.problem}") from None
        return self

    def variant(self, name: str, seed: int) -> Recipe:
        """The recipe of one variant and seed."""
        data = self.model_dump(mode="json", exclude={"variants", "seeds"})
        for dotted, value in self.variants[name].items():
            _set(data, dotted, value)
        data["pretrain"]["seed"] = seed
        data |= {"name": f"{self.name}-{name}-{seed}", "experiment": self.experiment or self.name, "register_as": None}
        return Recipe.model_validate(data)

    def resolved_languages(self) -> dict[str, Language]:
        return languages.resolve(self.languages, self.extra_languages)


C = TypeVar("C", bound=Config)
R = TypeVar("R", bound=Run)


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply dotted overrides such as `pretrain.steps=200`; values are read as YAML."""
    return load_run(Recipe, path, overrides)


def load_run(kind: type[C], path: str | Path, overrides: Sequence[str] = ()) -> C:
    """A recipe of any kind."""
    data = _read_yaml(Path(path))
    for override in overrides:
        _apply(data, override)
    _refuse_credentials(data, "")
    try:
        return kind.model_validate(_fill_in(data, str(data.get("data", "data"))))
    except ValidationError as error:
        raise RecipeError(f"{path}: {_describe(error, kind)}", "Correct the recipe and run it again.") from None


def changed(recipe: R, values: Mapping[str, Any]) -> R:
    """A recipe with other values at dotted paths."""
    data = recipe.model_dump(mode="json")
    for dotted, value in values.items():
        _set(data, dotted, value)
    try:
        return type(recipe).model_validate(data)
    except ValidationError as error:
        raise RecipeError(_describe(error, type(recipe))) from None


def configure(kind: type[C], data: dict[str, Any], overrides: Sequence[str]) -> C:
    """A config of one component from values and dotted overrides, without a recipe."""
    for override in overrides:
        _apply(data, override)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise RecipeError(_describe(error, kind)) from None


def _refuse_credentials(value: Any, path: str) -> None:
    """A recipe is tracked, and sent to a cluster: no URI in it may carry a password; what it is, is not repeated."""
    if isinstance(value, dict):
        for key, below in value.items():
            _refuse_credentials(below, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _refuse_credentials(item, f"{path}.{number}")
    elif isinstance(value, str) and re.search(r"://[^/\s]*@", value):
        raise RecipeError(
            f"{path}: a URI in a recipe must not carry a user name or password",
            "Set them in the environment instead, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )


def _fill_in(value: Any, data: str) -> Any:
    if isinstance(value, dict):
        return {key: _fill_in(below, data) for key, below in value.items()}
    if isinstance(value, list):
        return [_fill_in(item, data) for item in value]
    return value.replace("{data}", data) if isinstance(value, str) else value


class _StrictLoader(yaml.SafeLoader):
    """YAML as everyone expects it: a key that is given twice is an error, not a silent choice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        shipped = sorted(p.as_posix() for p in Path("jobs/recipes").glob("*.yaml"))
        remedy = f"Shipped recipes: {', '.join(shipped)}." if shipped else "Give the path of a recipe (a YAML file)."
        raise RecipeError(f"there is no recipe at {path}", remedy) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not valid UTF-8"
        raise RecipeError(
            f"cannot read the recipe {path}: {reason}", "Check that it is a readable text file."
        ) from None
    try:
        data = yaml.load(text, Loader=_StrictLoader)  # a SafeLoader: no Python objects
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{line}: {getattr(error, 'problem', None) or 'not valid YAML'}") from None
    if not isinstance(data, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of keys to values", "See jobs/recipes/quickstart.yaml.")
    return data


def _apply(data: dict[str, Any], override: str) -> None:
    dotted, separator, text = override.partition("=")
    if not separator or not dotted:
        raise RecipeError(f"cannot understand the override {override!r}", "Write it as key.subkey=value.")
    try:
        value = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError:
        raise RecipeError(f"cannot read the value of the override {override!r}", "Values are read as YAML.") from None
    _set(data, dotted, value)


def _set(data: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    here: Any = data
    for i, key in enumerate(parents):
        if isinstance(here, list):
            here = _item(here, key, dotted)
            continue
        if here.get(key) is None:
            here[key] = {}
        here = here[key]
        if not isinstance(here, (dict, list)):
            raise RecipeError(f"override {dotted!r}: {'.'.join(parents[: i + 1])} has no keys below it")
    if isinstance(here, list):
        _item(here, last, dotted)
        here[int(last)] = value
    else:
        here[last] = value


def _item(values: list[Any], key: str, dotted: str) -> Any:
    if not key.isdigit() or int(key) >= len(values):
        raise RecipeError(f"override {dotted!r}: {key!r} is not a position in a list of {len(values)}")
    return values[int(key)]


def _describe(error: ValidationError, kind: type[BaseModel] = Recipe) -> str:
    """Every problem on its own line, with its path and, for an unknown key, the nearest right one."""
    return "\n".join(_describe_one(problem, kind) for problem in error.errors())


def _describe_one(problem: Any, kind: type[BaseModel]) -> str:
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, BabelrayError):
        return str(cause)
    shown, known = _follow(problem["loc"], kind)
    path = ".".join(map(str, shown)) or "recipe"
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(shown[-1]), known, n=1, cutoff=0.5)
        return f"{path}: unknown key" + (
            f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known)}"
        )
    if problem["type"] == "missing":
        return f"{path}: this key is required"
    message = problem["msg"].removeprefix("Value error, ")
    given = problem.get("input")
    value = f" (given: {given!r})" if isinstance(given, (str, int, float, bool)) else ""
    return f"{path}: {message[:1].lower()}{message[1:]}{value}"


def _follow(location: Sequence[int | str], kind: type[BaseModel]) -> tuple[list[int | str], list[str]]:
    """The path as it stands in the recipe, and the keys that are known beside its last part.

    Pydantic's own path also holds the tag of a union (`objectives.0.mlm.mask`), which no recipe has.
    """
    shown: list[int | str] = []
    beside: list[type[BaseModel]] = []
    models: list[type[BaseModel]] = [kind]
    for part in location:
        tagged = [model for model in models if part in _tags(model)]
        if tagged and not isinstance(part, int):
            models = tagged
            continue
        shown.append(part)
        if not isinstance(part, int):
            beside = models
            inside = [m for model in models if part in model.model_fields for m in _models_in(model, part)]
            models = inside or models  # a name in a mapping of names to models is no field
    return shown, sorted({name for model in beside for name in model.model_fields})


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    """What tells the members of a union apart: the `kind` of an objective, the `task` of an evaluation."""
    fields = [model.model_fields[name] for name in ("kind", "task") if name in model.model_fields]
    return tuple(tag for field in fields for tag in typing.get_args(field.annotation))


def _models_in(model: type[BaseModel], field: str) -> list[type[BaseModel]]:
    def walk(annotation: Any) -> list[type[BaseModel]]:
        if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
            return [annotation] if issubclass(annotation, BaseModel) else []
        return [found for argument in typing.get_args(annotation) for found in walk(argument)]

    return walk(model.model_fields[field].annotation)
