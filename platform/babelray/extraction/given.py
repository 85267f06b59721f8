"""Static vectors that exist already, such as fastText's: nothing is extracted, files are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from babelray.extraction.method import EXTRACTION_METHODS, ExtractionMethod
from babelray.storage import Location

if TYPE_CHECKING:
    from babelray.vectors.word_vectors import WordVectors


@EXTRACTION_METHODS.register
class GivenVectors(ExtractionMethod):
    """Not the encoder's vectors at all, but files such as fastText's."""

    method: Literal["given"] = "given"
    path: str
    """The files, with `{lang}` in their path: .vec, .txt or .bin, plain or .gz."""
    limit: int = Field(200_000, ge=2)
    """Words read per file: the most frequent ones, which come first."""

    @field_validator("path")
    @classmethod
    def _path_names_the_language(cls, path: str) -> str:
        if "{lang}" not in path:
            raise ValueError("the method `given` needs a path with {lang} in it")
        return path

    def location(self, code: str) -> Location:
        """The file of a language."""
        return Location.parse(self.path.replace("{lang}", code))

    def sources(self, languages: Sequence[str]) -> list[Location]:
        return [self.location(code) for code in languages]

    def read(self, code: str) -> WordVectors:
        from babelray.vectors.formats import read_vectors

        return read_vectors(self.location(code), self.limit)
