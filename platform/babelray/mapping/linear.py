"""A fitted linear mapping, whatever method fitted it: it can be saved, loaded, and applied to words it never saw.

Shapes: N words, D width of the space, E width of the space it is mapped to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from babelray.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.storage import Place


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


@dataclass(frozen=True)
class LinearMapping:
    """x ↦ (normalised, centred x) W."""

    mean_D: Tensor
    matrix_DE: Tensor

    @classmethod
    def identity(cls, vectors_ND: Tensor) -> LinearMapping:
        """Normalise and centre, and nothing more."""
        _, mean_D = unit_centred(vectors_ND)
        return cls(mean_D, torch.eye(vectors_ND.shape[1], dtype=vectors_ND.dtype))

    def transform(self, vectors_ND: Tensor) -> Tensor:
        """Map vectors, of words seen or not."""
        return unit_centred(vectors_ND, self.mean_D)[0] @ self.matrix_DE

    def then(self, matrix_EF: Tensor) -> LinearMapping:
        """This mapping, and a matrix after it."""
        return LinearMapping(self.mean_D, self.matrix_DE @ matrix_EF)

    def save(self, place: Place) -> None:
        with place.local_output() as folder:
            save_file({"mean": self.mean_D, "matrix": self.matrix_DE.contiguous()}, folder / "mapping.safetensors")

    @classmethod
    def load(cls, place: Place) -> LinearMapping:
        with place.local_input() as folder:
            tensors = load_file(folder / "mapping.safetensors")
        return cls(tensors["mean"], tensors["matrix"])
