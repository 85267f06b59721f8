"""How words in context are mapped (Zhao and Eger, "Constrained Density Matching and Modeling", section 4.4)."""

from __future__ import annotations

from pydantic import Field, field_validator

from babelray.config import Config
from babelray.mapping.config import MappingConfig

ORIGINAL = "original"
"""The encoder as it is, beside which mapped ones are shown."""


class NamedMapping(MappingConfig):
    """A method with its settings. One that can do without translations is not given any."""

    name: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """What it is called in tables, when a method is used in several ways; the method's own name by default."""

    @property
    def label(self) -> str:
        return self.name or self.method


class MapConfig(Config):
    """Occurrences of words in parallel text, and the mappings that are fitted on them; as in the paper by default."""

    layer: int = 8
    """The layer that is mapped, or the last of an encoder that has fewer; negative numbers count from the last."""
    sentences: int = Field(20_000, ge=1)
    """Sentence pairs of each language with the hub, evenly from all training text; words are linked in them …"""
    pairs: int = Field(20_000, ge=2)
    """… of which so many linked ones are taken, evenly from all. Methods without supervision get them unpaired."""
    min_count: int = Field(2, ge=1)
    """Two words that are linked less often are left out."""
    occurrences_per_word: int = Field(10, ge=1)
    """No word is taken more often."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included."""
    methods: list[NamedMapping] = Field(min_length=1)
    """What is fitted, each for every language with the hub."""

    @field_validator("methods")
    @classmethod
    def _labels_are_unique(cls, methods: list[NamedMapping]) -> list[NamedMapping]:
        labels = [method.label for method in methods]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two methods have the same name ({', '.join(labels)}): give each a `name`")
        if taken := {ORIGINAL, "encoder", "work", "results", "predictions"} & {*labels}:
            raise ValueError(f"{taken.pop()!r} has another meaning here: give the method another `name`")
        return methods
