"""Word vectors of one language: words with counts, and a matrix. Saved as safetensors and a text vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from babelray.errors import DataError
from babelray.storage import AnyPath, Location

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

MATRIX, VOCABULARY = "vectors.safetensors", "vocabulary.tsv"


def read_tensors(file: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; an error if it is another kind of file, such as a pickled one."""
    try:
        return load_file(file)
    except SafetensorError as error:
        raise DataError(f"{file} is not a safetensors file ({error})", "Make the artifact again.") from error


@dataclass(frozen=True)
class WordVectors:
    """`matrix[i]` is the vector of `words[i]`, which occurred `counts[i]` times.

    >>> import torch
    >>> vectors = WordVectors(["a", "b"], torch.eye(2), [3, 1])
    >>> vectors.position["b"], len(vectors), vectors.dimension
    (1, 2, 2)
    """

    words: list[str]
    matrix: Tensor
    counts: list[int]

    def __post_init__(self) -> None:
        if not len(self.words) == len(self.matrix) == len(self.counts):
            raise DataError(
                f"{len(self.words)} words, {len(self.matrix)} vectors and {len(self.counts)} counts do not fit together"
            )

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dimension(self) -> int:
        return self.matrix.shape[1]

    @cached_property
    def position(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def with_matrix(self, matrix: Tensor) -> WordVectors:
        """The same words with other vectors."""
        return WordVectors(self.words, matrix, self.counts)

    def save(self, folder: AnyPath) -> None:
        """Write a folder; the vocabulary, written last, marks it complete."""
        location = Location.parse(folder)
        rows = "".join(f"{word}\t{count}\n" for word, count in zip(self.words, self.counts, strict=True))
        if rows.count("\t") + rows.count("\n") > 2 * len(self):
            word = next(word for word in self.words if "\t" in word or "\n" in word)
            raise DataError(f"the word {word!r} cannot be saved", "A word must not contain a tab or a line break.")
        with (location / MATRIX).writing() as file:  # atomically: another process may have the old file mapped
            save_file({"vectors": self.matrix.contiguous()}, file)
        (location / VOCABULARY).write_text(rows)

    @classmethod
    def load(cls, folder: AnyPath) -> WordVectors:
        """Read a folder. A local matrix is memory-mapped: its rows are read when they are used."""
        location = Location.parse(folder)
        with (location / MATRIX).local_input() as file:
            matrix = read_tensors(file)["vectors"]
        cells = (location / VOCABULARY).read_text().replace("\n", "\t").split("\t")
        try:
            return cls(cells[:-1:2], matrix, list(map(int, cells[1::2])))
        except (ValueError, DataError) as error:
            raise DataError(f"{location / VOCABULARY} is damaged ({error})", "Make the artifact again.") from error

    @staticmethod
    def is_complete(folder: AnyPath) -> bool:
        return (Location.parse(folder) / VOCABULARY).exists()
