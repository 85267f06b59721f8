"""The values of a recipe before they are checked: YAML, and overrides by dotted paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from babelray.errors import RecipeError
from babelray.recipe.shipped import RECIPES
from babelray.registry import REGISTRIES


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key that is given twice is an error, not a silent choice; no Python objects."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_values(recipe: str | Path) -> dict[str, Any]:
    """The content of a YAML file, or of the shipped recipe of a name."""
    path = RECIPES.locate(recipe)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecipeError(*RECIPES.explain_missing(recipe)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not valid UTF-8"
        raise RecipeError(
            f"cannot read the recipe {path}: {reason}", "Check that it is a readable text file."
        ) from None
    try:
        data = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{line}: {getattr(error, 'problem', None) or 'not valid YAML'}") from None
    if not isinstance(data, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of keys to values", "`babelray init FOLDER` writes one.")
    return _unshared(data)


def _unshared(value: Any) -> Any:
    """A copy in which nothing occurs twice: an override of one use of a YAML anchor must not change the others."""
    if isinstance(value, dict):
        return {key: _unshared(below) for key, below in value.items()}
    return [_unshared(item) for item in value] if isinstance(value, list) else value


def apply_override(data: dict[str, Any], override: str) -> None:
    """Set one value, written as `key.subkey=value`; the value is read as YAML."""
    dotted, separator, text = override.partition("=")
    if not separator or not dotted:
        raise RecipeError(f"cannot understand the override {override!r}", "Write it as key.subkey=value.")
    try:
        value = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError:
        raise RecipeError(f"cannot read the value of the override {override!r}", "Values are read as YAML.") from None
    set_value(data, dotted, value)


def set_value(data: dict[str, Any], dotted: str, value: Any) -> None:
    """Set the value at a dotted path; parts that are numbers are positions in lists."""
    *parents, last = dotted.split(".")
    node: Any = data
    for i, key in enumerate(parents):
        if key == "0" and isinstance(node, dict) and i > 0 and "0" not in node:
            continue  # a mapping that stands for a list of one
        node = _only_item(node, key)
        if isinstance(node, list):
            _item(node, key, dotted)
        place: Any = int(key) if isinstance(node, list) else key
        below = node[place] if isinstance(node, list) else node.get(place)
        node[place] = node = _mapping_of(below, ".".join(parents[: i + 1]), dotted)
    node = _only_item(node, last)
    if isinstance(node, list):
        _item(node, last, dotted)
        node[int(last)] = value
        return
    if node.get(last) not in (None, value):
        _choose_component(node, last, value)
    node[last] = value


def _only_item(node: Any, key: str) -> Any:
    """The mapping in a list of one, if a key of it is meant; anything else unchanged."""
    is_key = isinstance(node, list) and len(node) == 1 and isinstance(node[0], dict) and not key.isdigit()
    return node[0] if is_key else node


def _mapping_of(value: Any, path: str, dotted: str) -> dict[str, Any] | list[Any]:
    """A value that keys can be set in: nothing becomes a mapping, and so does a component given by its name alone."""
    if value is None:
        return {}
    if isinstance(value, (dict, list)):
        return value
    registry = next((registry for registry in REGISTRIES if isinstance(value, str) and value in registry), None)
    if registry is None:
        key = dotted.removeprefix(f"{path}.")
        remedy = "Name a key that the recipe has: `--dry-run` prints them all."
        if isinstance(value, str) and path.startswith("corpus."):  # a source that is given by its path alone
            remedy = f"Give all of it: {path}={{path: {value}, {key}: …}}."
        raise RecipeError(f"override {dotted!r}: {path} is {value!r}, which has no keys below it", remedy)
    return {registry.tag: value}


def _choose_component(settings: dict[str, Any], tag: str, name: Any) -> None:
    """Drop the settings that another component of the same registry does not have."""
    names = (settings[tag], name)
    for registry in REGISTRIES:
        if registry.tag == tag and all(isinstance(value, str) and value in registry for value in names):
            fields = registry[name].model_fields
            for key in [key for key in settings if key not in fields]:
                del settings[key]


def _item(values: list[Any], key: str, dotted: str) -> Any:
    if not key.isdigit() or int(key) >= len(values):
        raise RecipeError(
            f"override {dotted!r}: {key!r} is not a position in a list of {len(values)}",
            f"Positions are numbers from 0 to {len(values) - 1}." if values else "Give the whole list: key=[…].",
        )
    return values[int(key)]


def fill_in_data(value: Any, data: str) -> Any:
    """The same values with `{data}` replaced in every string."""
    if isinstance(value, dict):
        return {key: fill_in_data(below, data) for key, below in value.items()}
    if isinstance(value, list):
        return [fill_in_data(item, data) for item in value]
    return value.replace("{data}", data) if isinstance(value, str) else value


def refuse_credentials(value: Any, path: str = "") -> None:
    """Raise an error if a URI carries a password: recipes are tracked and sent to clusters. It is not repeated."""
    if isinstance(value, dict):
        for key, below in value.items():
            refuse_credentials(below, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            refuse_credentials(item, f"{path}.{number}")
    elif isinstance(value, str) and re.search(r"://[^/\s]*@", value):
        raise RecipeError(
            f"{path}: a URI in a recipe must not carry a user name or password",
            "Set them in the environment instead, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
