"""The sources of translations, and which of them are held out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from babelray.config import Config

Layout = Literal["aligned", "keyed", "table", "pairs"]


class TranslationSource(Config):
    """Files of translations. Their layout follows from the path, or from `layout`.

    aligned  `dir/{lang}.txt`               one file per language; line n translates line n
    keyed    `dir/{lang}.tsv`               one file per language; `key<TAB>text`, joined by the key
    table    `names.tsv`                    one file; a header line with language codes, one column per language
    pairs    `dir/{hub}-{lang}.tsv`         one file per pair; two columns, in the order in which the path names them
             `dir/{lang}.tsv`               the same where only the language is named, and comes first (give `layout`)
             `dir/{hub}-{lang}.{side}`      two files per pair (Moses); `{side}` stands for each language's code
    """

    path: str
    layout: Layout | None = None
    split: Literal["held-out", "train", "test"] = "held-out"
    """`held-out`: a part is held out for evaluation. `train`, `test`: all pairs belong to that split."""
    held_out: float = Field(0.2, ge=0, lt=1)
    """The share held out for evaluation, evenly spread over the file."""
    max_pairs: int | None = Field(None, ge=1)
    """Maximum number of pairs of a language, a random sample: so that one kind of text does not outweigh the others."""
    where: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """For tables: only rows whose numbers in these columns lie between the two values, inclusive."""
    languages: list[str] | None = None
    """Only these languages are read here; all by default."""
    required: bool = True
    """Whether every language must have a file here; otherwise those without are skipped."""

    @property
    def resolved_layout(self) -> Layout:
        if self.layout:
            return self.layout
        if "{hub}" in self.path:
            return "pairs"
        return "aligned" if "{lang}" in self.path else "table"

    @model_validator(mode="after")
    def _path_fits_the_layout(self) -> TranslationSource:
        placeholders = {"aligned": ["{lang}"], "keyed": ["{lang}"], "table": [], "pairs": ["{lang}"]}
        for name in placeholders[self.resolved_layout]:
            if name not in self.path:
                raise ValueError(f"a path of layout {self.resolved_layout!r} must contain {name}")
        if self.where and self.resolved_layout != "table":
            raise ValueError(f"`where` is for tables, this is of layout {self.resolved_layout!r}")
        return self


class ParallelConfig(TranslationSource):
    """Sentences and their translations."""

    max_ratio: float = Field(3.0, gt=1)
    """Pairs whose lengths, in characters and against the median of the source, differ by more are dropped."""


class DictionaryConfig(TranslationSource):
    """Words and their translations; `a | b` in a cell of aligned files are alternatives."""

    lowercase: bool = True
