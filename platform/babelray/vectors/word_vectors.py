"""Word vectors of one language: words with counts, and a matrix. Saved as safetensors and a text vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from babelray.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from babelray.storage import Place

MATRIX, VOCABULARY = "vectors.safetensors", "vocabulary.tsv"


def read_tensors(file: Path) -> dict[str, Tensor]:
    """What a file of safetensors holds; a clear error if it is another kind of file, such as a pickled one."""
    try:
        return load_file(file)
    except SafetensorError as error:
        raise DataError(f"{file} is not a file of safetensors ({error})", "Make the artifact again.") from error


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

    def save(self, place: Place) -> None:
        """Write a folder; the vocabulary, written last, marks it complete."""
        rows = "".join(f"{word}\t{count}\n" for word, count in zip(self.words, self.counts, strict=True))
        if rows.count("\t") + rows.count("\n") > 2 * len(self):
            word = next(word for word in self.words if "\t" in word or "\n" in word)
            raise DataError(f"the word {word!r} cannot be saved", "A word must not hold a tab or a line break.")
        with (place / MATRIX).writing() as file:  # not in place: another process may have the old file mapped
            save_file({"vectors": self.matrix.contiguous()}, file)
        (place / VOCABULARY).write_text(rows)

    @classmethod
    def load(cls, place: Place) -> WordVectors:
        """Read a folder. A local matrix is mapped into memory: its rows are read when they are used."""
        with (place / MATRIX).local_input() as file:
            matrix = read_tensors(file)["vectors"]
        cells = (place / VOCABULARY).read_text().replace("\n", "\t").split("\t")
        try:
            return cls(cells[:-1:2], matrix, list(map(int, cells[1::2])))
        except (ValueError, DataError) as error:
            raise DataError(f"{place / VOCABULARY} is damaged ({error})", "Make the artifact again.") from error

    @staticmethod
    def is_complete(place: Place) -> bool:
        return (place / VOCABULARY).exists()
