"""The base of every component's `Config`: strict, immutable, documented by the docstring under each field."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Config(BaseModel):
    """A strict model: an unknown key is an error, and so is a value of the wrong type."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    def identity(self) -> dict[str, Any]:
        """All that decides what comes out, as JSON values: without the operational fields, at any depth."""
        return {
            name: _identity(getattr(self, name))
            for name, field in type(self).model_fields.items()
            if not (isinstance(extra := field.json_schema_extra, dict) and extra.get("operational"))
        }


def operational(default: Any, **limits: Any) -> Any:
    """A field that says how something is computed, not what: two runs that differ only there share an artifact."""
    return Field(default, json_schema_extra={"operational": True}, **limits)


def _identity(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    if isinstance(value, Config):
        return value.identity()
    if isinstance(value, list | tuple):
        return [_identity(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _identity(item) for key, item in value.items()}
    return to_jsonable_python(value)
