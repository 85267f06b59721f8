"""The base of every component's `Config`: strict, immutable, documented by the docstring under each field."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A strict model: an unknown key is an error, and so is a value of the wrong type."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)
