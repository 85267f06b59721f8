"""What the corpus stage reads and keeps."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from babelray.config import Config
from babelray.lexicon.config import DictionaryConfig, ParallelConfig

Format = Literal["paragraphs", "sentences", "jsonl", "parquet"]


class TextSource(Config):
    """Text of each language. Files may be compressed: .gz, .zst or .xz."""

    path: str
    """A glob with `{lang}`: a local path, s3://, hf://datasets/… where a hub can be reached, or `starter:`."""
    format: Format = "paragraphs"
    """`paragraphs`: a paragraph a line, a blank line between documents. `sentences`: a sentence a line, a blank line
    between paragraphs. `jsonl`: a document a line. `parquet`: a document a row."""
    field: str = "text"
    """Where the text stands in a JSON line or parquet row; line breaks in it separate paragraphs."""
    column: int | None = Field(None, ge=0)
    """For lines with tabs: which column is the text, counted from 0."""
    languages: list[str] | None = None
    """Only these languages are read here; all by default."""
    required: bool = True
    """Whether every language must have a file here; otherwise those without are passed over."""


class CleaningConfig(Config):
    """What is kept; as in Hämmerl et al. (2022), appendix C."""

    min_tokens: int = Field(7, ge=1)
    """Sentences with fewer tokens are dropped."""
    max_tokens: int = Field(1000, ge=1)
    """Sentences with more tokens (tables, lists without marks) are dropped."""
    min_sentences: int = Field(2, ge=1)
    """Paragraphs with fewer sentences (headlines, captions) are dropped."""
    max_sentences: int | None = Field(1_000_000, ge=1)
    """Sentences kept per language, drawn by a hash of seed and text; null for all."""
    max_line_bytes: int = Field(1_000_000, ge=1000)
    """Longer lines are dropped and counted, never held in memory."""


class CorpusConfig(Config):
    """Text, and translations of words and sentences with the hub."""

    text: list[TextSource] = Field(min_length=1)
    """Where the text lies; a path alone, or one source alone, may stand for a list of one."""
    parallel: list[ParallelConfig] = Field(default_factory=list)
    """Sentences that are translations of each other; those held out never enter the training text."""
    dictionary: list[DictionaryConfig] = Field(default_factory=list)
    """Words that are translations of each other."""
    cleaning: CleaningConfig = CleaningConfig()
    segmenters: dict[str, str] = Field(default_factory=dict)
    """Another segmenter for some languages, such as `{ja: icu}`; `babelray languages` shows the usual ones."""
    missing_segmenter: Literal["icu", "error"] = "icu"
    """What to do when a language's segmenter is not installed: fall back to ICU and say so, or stop."""
    bad_files: Literal["error", "report"] = "error"
    """A file that is damaged in the middle: stop, or keep what could be read and report it."""
    min_count: int = Field(1, ge=1)
    """Words that occur less often stay out of the vocabulary."""
    max_words: int = Field(200_000, ge=1)
    """The most frequent words that make the vocabulary."""
    chunk_bytes: int = Field(16_000_000, ge=1000)
    """Uncompressed text is read in pieces of about this size, side by side; part of what makes shards the same."""
    shard_sentences: int = Field(100_000, ge=1)
    """Sentences in an output shard, at least (the last may have fewer)."""

    @model_validator(mode="before")
    @classmethod
    def _one_source_needs_no_list(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        for key in ("text", "parallel", "dictionary"):
            value = data.get(key)
            if isinstance(value, str):
                data = data | {key: [{"path": value}]}
            elif isinstance(value, dict):
                data = data | {key: [value]}
        return data
