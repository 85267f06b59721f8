"""Orthogonal Procrustes: the rotation that brings one space nearest to another on translation pairs.

    W* = argmin_{WᵀW = I} ‖X W − Y‖_F = U Vᵀ,   U Σ Vᵀ = svd(Xᵀ Y)

(Schönemann, 1966; for embeddings Xing et al., 2015.) Vectors are length-normalised, centred on the mean of
all words and normalised again first, as is usual; the same steps are applied to new words.
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


def unit_centred(matrix_ND: Tensor, mean_D: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Length-normalise, centre, length-normalise; returns the mean that was subtracted, for new words."""
    normal_ND = functional.normalize(matrix_ND)
    mean_D = normal_ND.mean(0) if mean_D is None else mean_D
    return functional.normalize(normal_ND - mean_D), mean_D


@dataclass(frozen=True)
class Procrustes:
    """A fitted mapping: x ↦ (normalised, centred x) W."""

    mean_D: Tensor
    rotation_DD: Tensor

    @classmethod
    def fit(cls, source_ND: Tensor, target_MD: Tensor, pairs: list[tuple[int, int]]) -> Procrustes:
        """Fit on pairs of positions; `target_MD` is used as it is, so give it normalised and centred."""
        if source_ND.shape[1] != target_MD.shape[1]:
            raise DataError(
                f"the two spaces have {source_ND.shape[1]} and {target_MD.shape[1]} dimensions",
                "An orthogonal mapping needs the same number of dimensions on both sides.",
            )
        if not pairs:
            raise DataError("no translation pair has both words in the vectors", "Give a larger dictionary.")
        mapped_ND, mean_D = unit_centred(source_ND)
        rows, columns = (torch.tensor(side) for side in zip(*pairs, strict=True))
        cross_DD = mapped_ND[rows].double().T @ target_MD[columns].double()
        u_DD, _, vt_DD = torch.linalg.svd(cross_DD)
        return cls(mean_D, (u_DD @ vt_DD).to(source_ND.dtype))

    @classmethod
    def identity(cls, source_ND: Tensor) -> Procrustes:
        """Normalise and centre, but do not rotate."""
        _, mean_D = unit_centred(source_ND)
        return cls(mean_D, torch.eye(source_ND.shape[1], dtype=source_ND.dtype))

    def transform(self, source_ND: Tensor) -> Tensor:
        """Map vectors, of words seen or not."""
        return unit_centred(source_ND, self.mean_D)[0] @ self.rotation_DD

    def save(self, place: Place) -> None:
        with place.local_output() as folder:
            save_file({"mean": self.mean_D, "rotation": self.rotation_DD.contiguous()}, folder / "mapping.safetensors")

    @classmethod
    def load(cls, place: Place) -> Procrustes:
        with place.local_input() as folder:
            tensors = load_file(folder / "mapping.safetensors")
        return cls(tensors["mean"], tensors["rotation"])
