"""Which text is read, which sentences of it make the corpus, and which words the vocabulary."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from babelray.config import Config

Format = Literal["paragraphs", "sentences", "jsonl", "parquet"]


class TextSource(Config):
    """Text of each language. Files may be compressed: .gz, .zst or .xz."""

    path: str
    """A glob with `{lang}`: a local path, s3://, hf://datasets/… where a hub can be reached, or `starter:`."""
    format: Format = "paragraphs"
    """`paragraphs`: one paragraph per line, a blank line between documents. `sentences`: one sentence per line, a blank
    line between paragraphs. `jsonl`: one document per line. `parquet`: one document per row."""
    field: str = "text"
    """The field of a JSON line or column of a parquet file that holds the text; its line breaks separate paragraphs."""
    column: int | None = Field(None, ge=0)
    """For lines with tabs: the column that holds the text, counted from 0."""
    languages: list[str] | None = None
    """Only these languages are read here; all by default."""
    required: bool = True
    """Whether every language must have a file here; otherwise those without are skipped."""

    @model_validator(mode="after")
    def _path_names_the_language(self) -> Self:
        if "{lang}" not in self.path and len(self.languages or []) != 1:
            raise ValueError(
                "every language would be read from the same files: put {lang} into the path, or name the one language "
                "of this text under `languages`"
            )
        return self


class CleaningConfig(Config):
    """Which sentences are kept; as in Hämmerl et al. (2022), appendix C."""

    min_tokens: int = Field(7, ge=1)
    """Sentences with fewer tokens are dropped."""
    max_tokens: int = Field(1000, ge=1)
    """Sentences with more tokens (tables, lists without punctuation) are dropped."""
    min_sentences: int = Field(2, ge=1)
    """Paragraphs with fewer sentences (headlines, captions) are dropped."""
    max_sentences: int | None = Field(1_000_000, ge=1)
    """Sentences kept per language, sampled by a hash of seed and text; null for all."""
    max_line_bytes: int = Field(1_000_000, ge=1000)
    """Longer lines are dropped and counted, never held in memory."""


def as_sources(value: Any) -> Any:
    """A list of sources, from a path alone or one source alone."""
    if isinstance(value, str):
        return [{"path": value}]
    return [value] if isinstance(value, dict) else value


class TextConfig(Config):
    """Text of all languages, and how it becomes sentences and vocabularies."""

    text: list[TextSource] = Field(min_length=1)
    """The files; a path alone, or one source alone, may stand for a list of one."""
    cleaning: CleaningConfig = CleaningConfig()
    bad_files: Literal["error", "report"] = "error"
    """For a file that is damaged in the middle: stop, or keep what could be read and report it."""
    min_count: int = Field(1, ge=1)
    """Words that occur less often stay out of the vocabulary."""
    max_words: int = Field(200_000, ge=1)
    """Size of the vocabulary: the most frequent words."""
    chunk_bytes: int = Field(16_000_000, ge=1000)
    """Uncompressed text is read in chunks of about this size, in parallel. The content of the shards depends on it."""
    shard_sentences: int = Field(100_000, ge=1)
    """Sentences per output shard, at least (the last may have fewer)."""

    _text_as_list = field_validator("text", mode="before")(as_sources)
