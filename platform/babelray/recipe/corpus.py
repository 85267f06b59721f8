"""The settings of the corpus stage: text, translations with the hub, and what segments each language."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from babelray.lexicon.config import DictionaryConfig, ParallelConfig
from babelray.text.config import TextConfig, as_sources


class CorpusConfig(TextConfig):
    """Text, and translations of words and sentences with the hub."""

    parallel: list[ParallelConfig] = Field(default_factory=list)
    """Sentences that are translations of each other; those held out never enter the training text."""
    dictionary: list[DictionaryConfig] = Field(default_factory=list)
    """Words that are translations of each other."""
    segmenters: dict[str, str] = Field(default_factory=dict)
    """Another segmenter for some languages, such as `{ja: icu}`; `babelray languages` shows the defaults."""
    missing_segmenter: Literal["icu", "error"] = "icu"
    """If a language's segmenter is not installed: fall back to ICU with a message, or stop."""

    _translations_as_lists = field_validator("parallel", "dictionary", mode="before")(as_sources)
