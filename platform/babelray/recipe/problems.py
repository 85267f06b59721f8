"""Validation errors in plain words: the path of the key, and for an unknown key the nearest right one."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, BeforeValidator, ValidationError

from babelray.errors import BabelrayError
from babelray.registry import Registry

_YAML_WORDS = {False: "no, off and false", True: "yes, on and true"}
"""What YAML reads as a truth value."""


def describe_problems(error: ValidationError, kind: type[BaseModel], data: Any) -> str:
    """Every problem on a line of its own; `data` are the values that were validated as `kind`."""
    return "\n".join(_describe(problem, kind, data) for problem in error.errors())


def _describe(problem: Any, kind: type[BaseModel], data: Any) -> str:
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, BabelrayError):
        return str(cause)
    location = problem["loc"]
    path = ".".join(map(str, location)) or "recipe"
    if problem["type"] == "extra_forbidden":
        keys = _keys_beside(location, kind, data)
        near = difflib.get_close_matches(str(location[-1]), keys, n=1, cutoff=0.5)
        return f"{path}: unknown key" + (f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(keys)}")
    if problem["type"] == "missing":
        examples = (getattr(model, "examples", {}) for model in _models_at(kind, list(location[:-1]), data))
        example = next((own[location[-1]] for own in examples if location[-1] in own), None)
        return f"{path}: this key is required" + (f", for example {example}" if example else "")
    if problem["type"] == "string_type" and isinstance(problem.get("input"), bool):
        return f"{path}: YAML reads {_YAML_WORDS[problem['input']]} without quotes as {problem['input']}: write 'no'"
    if problem["type"] == "list_type" and isinstance(problem.get("input"), Mapping):
        return f"{path}: this is a list: write [{{…}}] for all of it, or {path}.0.KEY to change its first entry"
    message = problem["msg"].removeprefix("Value error, ")
    given = problem.get("input")
    value = f" (given: {given!r})" if isinstance(given, (str, int, float, bool)) else ""
    return f"{path}: {message[:1].lower()}{message[1:]}{value}"


def _keys_beside(location: Sequence[int | str], kind: type[BaseModel], data: Any) -> list[str]:
    """The keys that are known at the last part of a path."""
    models = _models_at(kind, list(location[:-1]), data)
    return sorted({field.alias or name for model in models for name, field in model.model_fields.items()})


def _models_at(annotation: Any, path: list[int | str], value: Any) -> Iterator[type[BaseModel]]:
    """The models that the values at a path can be; where a registry decides, the one that the value chooses."""
    if hasattr(annotation, "__metadata__"):
        registries = [_registry_of(entry) for entry in annotation.__metadata__]
        registry = next(filter(None, registries), None)
        name = value.get(registry.tag, registry.default) if registry and isinstance(value, Mapping) else None
        chosen = registry[str(name)] if registry and name in registry else annotation.__origin__
        yield from _models_at(chosen, path, value)
    elif isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield from _models_below(annotation, path, value)
    elif typing.get_origin(annotation) in (list, dict) and path:
        yield from _models_at(typing.get_args(annotation)[-1], path[1:], _item(value, path[0]))
    else:
        for argument in typing.get_args(annotation):
            yield from _models_at(argument, path, value)


def _models_below(model: type[BaseModel], path: list[int | str], value: Any) -> Iterator[type[BaseModel]]:
    if not path:
        yield model
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if (field := fields.get(str(path[0]))) is not None:
        annotation = typing.Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        yield from _models_at(annotation, path[1:], _item(value, path[0]))


def _registry_of(entry: Any) -> Registry[Any] | None:
    owner = getattr(getattr(entry, "func", None), "__self__", None)
    return owner if isinstance(entry, BeforeValidator) and isinstance(owner, Registry) else None


def _item(value: Any, part: int | str) -> Any:
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None
