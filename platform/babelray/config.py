"""The base of every component's `Config`: strict, immutable, documented by the docstring under each field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Config(BaseModel):
    """A strict model: an unknown key is an error, and so is a value of the wrong type."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, validate_by_name=True, validate_by_alias=True
    )

    def identity(self) -> dict[str, Any]:
        """All fields that influence the result, as JSON values: without the operational ones, at any depth."""
        return {
            name: _identity(getattr(self, name))
            for name, field in type(self).model_fields.items()
            if not (isinstance(extra := field.json_schema_extra, dict) and extra.get("operational"))
        }


def operational(default: Any, **limits: Any) -> Any:
    """A field without influence on the result: runs that differ only in operational fields share an artifact."""
    return Field(default, json_schema_extra={"operational": True}, **limits)


def unique_labels(items: Sequence[Any], noun: str) -> None:
    """Raise an error if two components of a list have the same `label`."""
    labels = [item.label for item in items]
    if len(set(labels)) < len(labels):
        raise ValueError(f"two {noun} have the same name ({', '.join(labels)}): give each a `name`")


def _identity(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    if isinstance(value, Config):
        return value.identity()
    if isinstance(value, list | tuple):
        return [_identity(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _identity(item) for key, item in value.items()}
    return to_jsonable_python(value)
