"""Pages about the keys of recipes, from the fields of the configs and the docstrings under them."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from babelray.config import Config
from babelray.evaluation.benchmark import BENCHMARKS, Benchmark
from babelray.extraction.method import EXTRACTION_METHODS, EncoderMethod, ExtractionMethod
from babelray.languages import LANGUAGES
from babelray.mapping.method import MAPPING_METHODS, MappingMethod
from babelray.objectives.objective import OBJECTIVES, ObjectiveConfig
from babelray.recipe.recipe import Recipe
from babelray.recipe.simulation import SimulateConfig
from babelray.registry import Registry
from babelray.stitching.method import STITCHING_METHODS, FineTunedMethod, StitchingMethod
from babelray.sweeping.space import Space


class Components(NamedTuple):
    """The page of a registry."""

    page: str
    title: str
    registry: Registry[Any]
    base: type[BaseModel]
    """What every component derives from."""
    shared: tuple[type[BaseModel], ...]
    """Classes whose fields are described once, before the components."""
    introduction: str


COMPONENTS = [
    Components(
        "objectives",
        "Objectives",
        OBJECTIVES,
        ObjectiveConfig,
        (ObjectiveConfig,),
        "The losses under `pretrain.objectives`. A recipe names one by its `kind`, and may combine any of them.",
    ),
    Components(
        "mapping-methods",
        "Mapping methods",
        MAPPING_METHODS,
        MappingMethod,
        (MappingMethod,),
        "The values of `align.mapping`, `map.methods` and `babelray.align(method=…)`.",
    ),
    Components(
        "extraction-methods",
        "Extraction methods",
        EXTRACTION_METHODS,
        ExtractionMethod,
        (EncoderMethod,),
        "The values of `extract.method` and `babelray.extract(method=…)`. The first settings are those of all methods "
        "that read an encoder, which are all but `given`.",
    ),
    Components(
        "stitching-methods",
        "Stitching methods",
        STITCHING_METHODS,
        StitchingMethod,
        (FineTunedMethod,),
        "The values of `stitch.systems`. The first settings are those of all methods that fine-tune an encoder.",
    ),
    Components(
        "benchmarks",
        "Benchmarks",
        BENCHMARKS,
        Benchmark,
        (Benchmark,),
        "The values of `evaluate.benchmarks`, `babelray evaluate --benchmark` and `babelray.evaluate`.",
    ),
]
EMPTY = "<!-- -->"
"""A description that takes no space: every term of a list needs one."""
INTRODUCTION = """A recipe is YAML, read strictly: an unknown key, or a value of the wrong type, is an error that names
the path and the nearest valid key. On the command line a value is changed by its dotted path: `pretrain.steps=300`.

Keys marked *operational* change where or how fast something is computed, but not what: runs that differ only in them
share their artifacts."""


def pages() -> Iterator[tuple[str, str]]:
    """The path of each page and its Markdown."""
    yield "reference/recipe.md", recipe_page()
    for components in COMPONENTS:
        yield f"reference/{components.page}.md", components_page(components)
    yield "reference/sweep-space.md", space_page()
    yield "reference/languages.md", languages_page()


def recipe_page() -> str:
    sections = Sections()
    sections.add("Top level", Recipe)
    sections.add("simulate", SimulateConfig)
    return f"# Recipe\n\n{INTRODUCTION}\n\n{sections}"


def space_page() -> str:
    sections = Sections()
    sections.add("Top level", Space)
    introduction = "The YAML that `babelray sweep` takes; see [Sweeps](../guides/sweeps.md)."
    return f"# Sweep space\n\n{introduction}\n\n{sections}"


def components_page(components: Components) -> str:
    sections = Sections()
    known: dict[str, Any] = {}
    for base in components.shared:
        title = f"Settings of every {components.registry.noun}"
        if base is not components.base:
            title = f"Shared settings of {components.title.lower()}"
        sections.add(title, base, skip={components.registry.tag}, before="")
        known |= base.model_fields
    for name in components.registry:
        component = components.registry[name]
        described = {
            field
            for field, info in component.model_fields.items()
            if field in known and _says_the_same(info, known[field]) and _owner(component, field) in _owners(components)
        }
        sections.add(f"`{name}`", component, skip=described | {components.registry.tag}, before=explanation(component))
    names = ", ".join(f"[`{name}`](#{name})" for name in components.registry)
    return f"# {components.title}\n\n{components.introduction}\n\n{names}\n\n{sections}"


def languages_page() -> str:
    rows = [
        f"| `{language.code}` | {language.name} | {language.native} | {language.family} | {language.script} | "
        f"{language.segmenter} |"
        for language in LANGUAGES.values()
    ]
    introduction = "The 40 languages that need no description in a recipe. Others are described by `extra_languages`."
    head = "| code | language | own name | family | script | segmenter |\n|---|---|---|---|---|---|"
    return "\n".join(["# Languages", "", introduction, "", head, *rows])


def explanation(component: type[BaseModel]) -> str:
    """The docstring of the component, and that of its module, which has the equation and the deviations."""
    parts = [inspect.getdoc(component) or ""]
    module = sys.modules[component.__module__]
    if (text := inspect.cleandoc(module.__doc__ or "")) and text.split("\n")[0] not in parts[0]:
        parts.append(text)
    return "\n\n".join(map(as_markdown, parts))


def as_markdown(docstring: str) -> str:
    """A docstring whose indented or columnar paragraphs become blocks of code."""

    def block(paragraph: str) -> str:
        if paragraph.startswith("    "):
            return "```text\n" + textwrap.dedent(paragraph) + "\n```"
        if re.search(r"\S {2,}\S", paragraph) and "\n" in paragraph:
            return "```text\n" + paragraph + "\n```"
        return re.sub(r"`[^`]*`|<", lambda match: match[0] if len(match[0]) > 1 else "&lt;", paragraph)

    return "\n\n".join(map(block, re.split(r"\n\s*\n", docstring)))


class Sections:
    """Sections of a page, one per config; a config that occurs again is a link to its section."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.anchors: dict[type, str] = {}

    def add(self, title: str, config: type[BaseModel], skip: set[str] | None = None, before: str | None = None) -> None:
        """Describe a config, and all configs that its fields hold."""
        self.anchors[config] = anchor(title)
        position = len(self.texts)
        below: list[tuple[str, type[BaseModel]]] = []
        path = "" if title == "Top level" or " " in title else title.strip("`") + "."
        fields = []
        for name, info in config.model_fields.items():
            if name in (skip or ()):
                continue
            for inner in nested_configs(info.annotation):
                if inner not in self.anchors:
                    self.anchors[inner] = anchor(f"{path}{name}")
                    below.append((f"`{path}{name}`", inner))
            fields.append(self.describe(config, name, info))
        text = before if before is not None else as_markdown(inspect.getdoc(config) or "")
        nothing = "No settings of its own." if before is not None else ""
        self.texts.insert(position, "\n\n".join([f"## {title}", text, *(fields or [nothing])]))
        for inner_title, inner in below:
            self.add(inner_title, inner)

    def describe(self, config: type[BaseModel], name: str, info: FieldInfo) -> str:
        """A field as an entry of a definition list."""
        kind = self.type_name(info.annotation, info)
        default = default_text(info)
        extra = info.json_schema_extra
        marks = [*limits(info), *(["*operational*"] if isinstance(extra, dict) and extra.get("operational") else [])]
        head = f"`{info.alias or name}`{{ .key }} " + ", ".join(filter(None, [kind, *marks, default]))
        text = field_docstring(config, name)
        for inner in nested_configs(info.annotation):
            text = text or (inspect.getdoc(inner) or "").split("\n\n")[0]
        body = textwrap.indent(as_markdown(text) if text else EMPTY, "    ")
        return f"{head}\n:{body[1:]}"

    def type_name(self, annotation: Any, info: FieldInfo | None = None) -> str:
        """A type in plain words."""
        for components in COMPONENTS:
            if _mentions(annotation, components.base) and annotation_is_component(annotation, components.base):
                return f"[{components.registry.noun}]({components.page}.md)"
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.type_name(arguments[0])
        if origin is Literal:
            return " \\| ".join(f"`{argument}`" for argument in arguments)
        if origin in (typing.Union, types.UnionType):
            return " or ".join("null" if part is type(None) else self.type_name(part) for part in arguments)
        if origin is list:
            return f"list of {self.type_name(arguments[0])}"
        if origin is dict:
            return f"mapping of {self.type_name(arguments[0])} to {self.type_name(arguments[1])}"
        if origin is tuple:
            return "two numbers" if len(arguments) == 2 else "list"
        if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
            link = self.anchors.get(annotation)
            return f"[keys](#{link})" if link else "keys"
        names = {str: "text", int: "integer", float: "number", bool: "true or false", Any: "any value"}
        return names.get(annotation, getattr(annotation, "__name__", str(annotation)))

    def __str__(self) -> str:
        return "\n\n".join(self.texts)


def annotation_is_component(annotation: Any, base: type) -> bool:
    """Whether the annotation is one component, not a list of them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return annotation_is_component(get_args(annotation)[0], base)
    return inspect.isclass(annotation) and issubclass(annotation, base) and annotation is base


def _mentions(annotation: Any, base: type) -> bool:
    return annotation is base or any(_mentions(argument, base) for argument in get_args(annotation))


def nested_configs(annotation: Any) -> Iterator[type[BaseModel]]:
    """The configs that a field may hold, but for registered components, which have pages of their own."""
    registered = any(annotation is components.base for components in COMPONENTS)
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel) and not registered:
        yield annotation
    for argument in get_args(annotation):
        yield from nested_configs(argument)


def default_text(info: FieldInfo) -> str:
    """The default of a field, or that it is required."""
    if info.is_required():
        return "**required**"
    default = info.default
    if default is PydanticUndefined:
        default = typing.cast(Callable[[], Any], info.default_factory)()
    if isinstance(default, Config):
        tags = [getattr(default, components.registry.tag, "") for components in COMPONENTS]
        default = next(filter(None, tags), None)
        if default is None:
            return ""
    text = json.dumps(to_jsonable_python(default), ensure_ascii=False)
    text = re.sub(r"^\"(.*)\"$", r"\1", text)
    return f"default `{text}`" if len(text) <= 120 else ""


def limits(info: FieldInfo) -> Iterator[str]:
    """The bounds of a number."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    for item in info.metadata:
        for name, sign in signs.items():
            if (bound := getattr(item, name, None)) is not None:
                yield f"{sign} {bound}".replace("<", "&lt;").replace(">", "&gt;")


def field_docstring(config: type, name: str) -> str:
    """The docstring under a field, of the class that describes it."""
    for owner in config.__mro__:
        if owner in (Config, BaseModel, object) or not issubclass(owner, BaseModel):
            continue
        if text := _field_docstrings(owner).get(name):
            return text
    return ""


@lru_cache
def _field_docstrings(owner: type) -> Mapping[str, str]:
    """The docstrings under the fields that a class itself declares."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except OSError:
        return {}
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for statement, following in zip(definition.body, [*definition.body[1:], ast.Pass()], strict=True):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            texts[statement.target.id] = inspect.cleandoc(following.value.value)
    return texts


def _owner(config: type, name: str) -> type:
    """The class that declares a field."""
    return next(owner for owner in config.__mro__ if name in vars(owner).get("__annotations__", {}))


def _owners(components: Components) -> set[type]:
    return {owner for shared in components.shared for owner in shared.__mro__}


def _says_the_same(info: FieldInfo, other: FieldInfo) -> bool:
    return info.default == other.default and info.annotation == other.annotation


def anchor(title: str) -> str:
    """The anchor that the table of contents gives a title.

    >>> anchor("`corpus.text`"), anchor("Top level")
    ('corpustext', 'top-level')
    """
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
