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
    from collections.abc import Sequence
    from pathlib import Path

    import pandas
    from torch import Tensor

SHOWN = 5
"""Words that the representation names."""
MATRIX, VOCABULARY = "vectors.safetensors", "vocabulary.tsv"


def read_tensors(file: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; an error if it is another kind of file, such as a pickled one."""
    try:
        return load_file(file)
    except SafetensorError as error:
        raise DataError(f"{file} is not a safetensors file ({error})", "Make the artifact again.") from error


@dataclass(frozen=True, repr=False)
class WordVectors:
    """The static vectors of a language: `matrix[i]` is the vector of `words[i]`, which occurred `counts[i]` times.

    Examples:
        >>> import torch
        >>> vectors = WordVectors(["dog", "cat"], torch.eye(2), [3, 1])
        >>> vectors
        WordVectors(2 words, 2 dimensions: dog, cat)
        >>> vectors["cat"], "cat" in vectors, len(vectors), vectors.dimension
        (tensor([0., 1.]), True, 2, 2)
        >>> vectors[["cat", "dog"]]
        tensor([[0., 1.],
                [1., 0.]])
    """

    words: list[str]
    matrix: Tensor
    counts: list[int]
    training_words: frozenset[str] = frozenset()
    """Source words of the dictionary that `align` mapped these vectors with: a test should have none. Not saved."""

    def __post_init__(self) -> None:
        if not len(self.words) == len(self.matrix) == len(self.counts):
            raise DataError(
                f"{len(self.words)} words, {len(self.matrix)} vectors and {len(self.counts)} counts do not fit together"
            )

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.position

    def __getitem__(self, words: str | Sequence[str]) -> Tensor:
        """The vector (D) of a word, or the vectors (N, D) of several."""
        try:
            rows = self.position[words] if isinstance(words, str) else [self.position[word] for word in words]
        except KeyError as error:
            raise KeyError(f"there is no vector of {error.args[0]!r}") from None
        return self.matrix[rows]

    def __repr__(self) -> str:
        shown = ", ".join(self.words[:SHOWN]) + (", …" if len(self) > SHOWN else "")
        return f"WordVectors({len(self):,} words, {self.dimension} dimensions: {shown})"

    @property
    def dimension(self) -> int:
        return self.matrix.shape[1]

    @cached_property
    def position(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def with_matrix(self, matrix: Tensor) -> WordVectors:
        """The same words with other vectors."""
        return WordVectors(self.words, matrix, self.counts, self.training_words)

    def first(self, limit: int | None) -> WordVectors:
        """The first words, which are the most frequent ones; all without a limit."""
        if limit is None or limit >= len(self):
            return self
        return WordVectors(self.words[:limit], self.matrix[:limit], self.counts[:limit], self.training_words)

    def neighbours(self, word: str, count: int = 10, target: WordVectors | None = None) -> list[tuple[str, float]]:
        """The words nearest to a word, with their cosines, best first.

        Args:
            word: A word that has a vector.
            count: The number of neighbours.
            target: Vectors of another language in the same space, whose words are wanted; by default these.

        Examples:
            >>> import babelray as br
            >>> en = br.load_vectors({"dog": [2.0, 0.1], "puppy": [1.8, 0.2], "water": [-2.0, 1.0], "ice": [-2.0, 0.9]})
            >>> de = br.load_vectors({"hund": [2.0, 0.1], "wasser": [-2.0, 1.0]})
            >>> en.neighbours("dog", 1)[0][0], en.neighbours("dog", 1, target=de)[0][0]
            ('puppy', 'hund')
        """
        from babelray.vectors.neighbours import neighbours

        return neighbours(self, word, count, target)

    def to_pandas(self) -> pandas.DataFrame:
        """A table with one row per word and one column per dimension.

        >>> import torch
        >>> WordVectors(["dog", "cat"], torch.eye(2), [3, 1]).to_pandas()
               0    1
        dog  1.0  0.0
        cat  0.0  1.0
        """
        import pandas

        return pandas.DataFrame(self.matrix.numpy(), index=self.words)

    def save(self, path: AnyPath) -> None:
        """Write a file, if the name ends in `.vec`, `.txt` or `.bin` (or one of them and `.gz`); otherwise a folder.

        A folder holds safetensors and a vocabulary with counts; the vocabulary, written last, marks it complete.
        """
        from babelray.vectors.formats import ENDINGS, write_vectors

        location = Location.parse(path)
        if location.name.removesuffix(".gz").endswith(ENDINGS):
            write_vectors(self, location)
            return
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
        try:
            words, counts = cls.read_vocabulary(location)
            return cls(words, matrix, counts)
        except (ValueError, DataError) as error:
            raise DataError(f"{location / VOCABULARY} is damaged ({error})", "Make the artifact again.") from error

    @staticmethod
    def read_vocabulary(folder: AnyPath) -> tuple[list[str], list[int]]:
        """The words of a folder and their counts."""
        cells = (Location.parse(folder) / VOCABULARY).read_text().replace("\n", "\t").split("\t")
        return cells[:-1:2], list(map(int, cells[1::2]))

    @staticmethod
    def is_complete(folder: AnyPath) -> bool:
        return (Location.parse(folder) / VOCABULARY).exists()
