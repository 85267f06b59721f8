"""Word vectors of one language: words with counts, and a matrix. Saved as safetensors and a text vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from safetensors.torch import load_file, save_file

from babelray.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.storage import Place

MATRIX, VOCABULARY = "vectors.safetensors", "vocabulary.tsv"


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
        with place.local_output() as folder:
            save_file({"vectors": self.matrix.contiguous()}, folder / MATRIX)
        rows = (f"{word}\t{count}\n" for word, count in zip(self.words, self.counts, strict=True))
        (place / VOCABULARY).write_text("".join(rows))

    @classmethod
    def load(cls, place: Place) -> WordVectors:
        with place.local_input() as folder:
            matrix = load_file(folder / MATRIX)["vectors"]
        rows = [line.split("\t") for line in (place / VOCABULARY).read_text().split("\n") if line]
        return cls([word for word, _ in rows], matrix, [int(count) for _, count in rows])

    @staticmethod
    def is_complete(place: Place) -> bool:
        return (place / VOCABULARY).exists()
