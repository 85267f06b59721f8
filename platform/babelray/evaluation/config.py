"""What is measured, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from babelray.config import Config
from babelray.evaluation.catalogue import AnyTask
from babelray.evaluation.word_similarity import WordSimilaritySource


class EvaluateConfig(Config):
    """The encoder before and after, on held-out parallel sentences; the vectors before and after, on held-out words."""

    layer: int = 7
    """Layer whose mean-pooled vectors stand for a sentence; 0 is the embedding layer, negative numbers count from
    the last."""
    by_layer: bool = True
    """Whether sentence retrieval is measured at every layer too: which one is best aligned?"""
    perplexity: int = Field(20, ge=0)
    """On so many held-out sentences of each language the encoder is judged as a language model; 0: it is not."""
    words: int = Field(20_000, ge=1)
    """Among how many of each language's most frequent words, encoded alone, a translation is looked for; tested words
    come on top."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included."""
    bli: Literal["hub", "matrix"] = "hub"
    """Word translation by static vectors: with the hub, or also between all pairs of languages, as a heat map."""
    word_similarity: list[WordSimilaritySource] = Field(default_factory=list)
    """Word pairs rated by people, for the static vectors."""
    tasks: list[AnyTask] = Field(default_factory=list)
    """Data sets in their published formats that both encoders are judged by, before and after."""

    @field_validator("tasks")
    @classmethod
    def _labels_are_unique(cls, tasks: list[AnyTask]) -> list[AnyTask]:
        labels = [task.label for task in tasks]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two tasks have the same name ({', '.join(labels)}): give each a `name`")
        return tasks
