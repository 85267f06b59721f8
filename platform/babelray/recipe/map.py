"""How words in context are mapped (Zhao and Eger, "Constrained Density Matching and Modeling", section 4.4)."""

from __future__ import annotations

from pydantic import Field, field_validator

from babelray.config import Config, unique_labels
from babelray.mapping.method import AnyMappingMethod, MappingMethod

ORIGINAL = "original"
"""The encoder without a mapping, which the mapped ones are compared with."""
RESERVED = {ORIGINAL, "encoder", "work", "results", "predictions"}
"""Names of other things in the artifact."""


class MapConfig(Config):
    """Occurrences of words in parallel text, and the mappings that are fitted on them; as in the paper by default."""

    layer: int = 8
    """The layer that is mapped, or the last of an encoder that has fewer; negative numbers count from the last."""
    sentences: int = Field(20_000, ge=1)
    """Sentence pairs of each language with the hub, evenly from all training text; words are linked in these …"""
    pairs: int = Field(20_000, ge=2)
    """… and this number of linked words is taken, evenly from all. Methods without supervision get them unpaired."""
    min_count: int = Field(2, ge=1)
    """Two words that are linked less often are left out."""
    occurrences_per_word: int = Field(10, ge=1)
    """No word is taken more often."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included."""
    methods: list[AnyMappingMethod] = Field(min_length=1)
    """Mapping methods, each by its name or with its settings; each is fitted for every language with the hub. One that
    works without translations gets none."""

    @field_validator("methods")
    @classmethod
    def _labels_are_free(cls, methods: list[MappingMethod]) -> list[MappingMethod]:
        unique_labels(methods, "methods")
        if taken := RESERVED & {method.label for method in methods}:
            raise ValueError(f"{taken.pop()!r} has another meaning here: give the method another `name`")
        return methods
