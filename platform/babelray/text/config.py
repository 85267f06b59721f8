"""What the corpus stage reads and keeps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from babelray.config import Config


class CorpusConfig(Config):
    """Sources are places with `{lang}` in them; `starter:` names the data shipped with Babelray."""

    text: str
    """Text of each language, a glob with `{lang}`."""
    format: Literal["paragraphs", "sentences"] = "paragraphs"
    """`paragraphs`: a paragraph a line, a blank line between documents. `sentences`: a sentence a line, a blank
    line between paragraphs."""
    parallel: str | None = None
    """Sentences that are translations of each other, one file a language, aligned by line; blank lines separate
    paragraphs. Held-out paragraphs never enter the training text."""
    dictionary: str | None = None
    """Words that are translations of each other, one file a language, aligned by line; `a | b` are alternatives."""
    held_out: float = Field(0.2, ge=0, lt=1)
    """Share of the paragraphs of parallel text, and of the dictionary's entries, kept for evaluation."""
    min_tokens: int = Field(7, ge=1)
    """Sentences with fewer tokens are dropped."""
    min_sentences: int = Field(2, ge=1)
    """Paragraphs with fewer sentences (headlines, captions) are dropped."""
    min_count: int = Field(1, ge=1)
    """Words that occur less often stay out of the vocabulary."""
    max_words: int = Field(200_000, ge=1)
    """The most frequent words that make the vocabulary."""
