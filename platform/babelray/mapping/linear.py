"""A fitted linear mapping, whatever method fitted it: it can be saved, loaded, and applied to words it never saw.

Shapes: N words, D width of the space, E width of the space it is mapped to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch.nn import functional

from babelray.errors import DataError
from babelray.vectors.word_vectors import read_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.method import Normalise
    from babelray.storage import Location


DESCRIPTION = "mapping.json"
"""The file that says what kind of mapping a folder holds."""
Dictionary = tuple["Tensor", "Tensor"]
"""Pairs of positions: of source words, and of the target words that translate them."""


def check_vectors(side: str, vectors_ND: Tensor) -> None:
    """Raise an error that says what is wrong with vectors that cannot be mapped."""
    if not torch.isfinite(vectors_ND).all():
        row = int((~torch.isfinite(vectors_ND)).any(1).nonzero()[0])
        raise DataError(f"{side}: the vector of word {row + 1} is not finite", "Make the vectors again without it.")
    if not vectors_ND.any():
        raise DataError(f"{side}: all vectors are zero", "Make the vectors again.")


def check_pairs(source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, same_width: bool) -> None:
    """Raise an error that says why a mapping cannot be fitted."""
    check_vectors("source", source_ND)
    check_vectors("target", target_MD)
    if same_width and source_ND.shape[1] != target_MD.shape[1]:
        raise DataError(
            f"the two spaces have {source_ND.shape[1]} and {target_MD.shape[1]} dimensions",
            "Use vectors of the same width, or the method least-squares.",
        )
    if dictionary is not None and not len(dictionary[0]):
        raise DataError("no translation pair has both words in the vectors", "Give a larger dictionary, or none.")


def unit_centred(matrix_ND: Tensor, mean_D: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Length-normalise, centre, length-normalise; returns the mean that was subtracted, for new words."""
    normal_ND = functional.normalize(matrix_ND)
    mean_D = normal_ND.mean(0) if mean_D is None else mean_D
    return functional.normalize(normal_ND - mean_D), mean_D


def prepare(matrix_ND: Tensor, normalise: Normalise = "unit") -> tuple[Tensor, Tensor]:
    """Vectors as a mapping sees them; returns the mean that was subtracted too, zero if none was."""
    if normalise == "unit":
        return unit_centred(matrix_ND)
    mean_D = matrix_ND.mean(0) if normalise == "centred" else matrix_ND.new_zeros(matrix_ND.shape[1])
    return matrix_ND - mean_D, mean_D


@dataclass(frozen=True)
class LinearMapping:
    """x ↦ (normalised, centred x) W; where lengths count (`unit` is false), x ↦ (centred x) W."""

    mean_D: Tensor
    matrix_DE: Tensor
    unit: bool = True

    @classmethod
    def identity(cls, vectors_ND: Tensor, normalise: Normalise = "unit") -> LinearMapping:
        """Normalise and centre, and nothing more."""
        _, mean_D = prepare(vectors_ND, normalise)
        return cls(mean_D, torch.eye(vectors_ND.shape[1], dtype=vectors_ND.dtype), normalise == "unit")

    def transform(self, vectors_ND: Tensor) -> Tensor:
        """Map vectors, of words seen or not."""
        prepared_ND = unit_centred(vectors_ND, self.mean_D)[0] if self.unit else vectors_ND - self.mean_D
        return prepared_ND @ self.matrix_DE

    def then(self, matrix_EF: Tensor) -> LinearMapping:
        """This mapping, and a matrix after it."""
        return LinearMapping(self.mean_D, self.matrix_DE @ matrix_EF, self.unit)

    def save(self, location: Location) -> None:
        with location.local_output() as folder:
            save_file({"mean": self.mean_D, "matrix": self.matrix_DE.contiguous()}, folder / "mapping.safetensors")
            (folder / DESCRIPTION).write_text(json.dumps({"kind": "linear", "unit": self.unit}))

    @classmethod
    def load(cls, location: Location) -> LinearMapping:
        description = (location / DESCRIPTION).read_json()
        with location.local_input() as folder:
            tensors = read_tensors(folder / "mapping.safetensors")
        return cls(tensors["mean"], tensors["matrix"], description["unit"])
