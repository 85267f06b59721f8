"""Orthogonal Procrustes: the rotation that brings one space nearest to another on translation pairs.

    W* = argmin_{WᵀW = I} ‖X W − Z‖_F = U Vᵀ,   U Σ Vᵀ = svd(Xᵀ Z)

(Schönemann, 1966; for embeddings Xing et al., 2015.) The target stays as it is but for normalisation.

Shapes: N and M words, P pairs, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from babelray.mapping.method import MAPPING_METHODS, MappingMethod, Normalise, Notify

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.linear import Dictionary, LinearMapping


@MAPPING_METHODS.register
class ProcrustesConfig(MappingMethod):
    """The best rotation on the training dictionary (Schönemann, 1966; Xing et al., 2015)."""

    method: Literal["procrustes"] = "procrustes"

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[LinearMapping, LinearMapping]:
        assert dictionary is not None  # `fit_mappings` checks it
        return procrustes(source_ND, target_MD, dictionary, self.normalise)


def rotation(x_PD: Tensor, z_PD: Tensor) -> Tensor:
    """The best rotation (D, D) of pairs of rows, computed in double precision."""
    import torch

    u_DD, _, vt_DD = torch.linalg.svd(x_PD.double().T @ z_PD.double())
    return (u_DD @ vt_DD).to(x_PD.dtype)


def procrustes(
    source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary, normalise: Normalise = "unit"
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions."""
    from babelray.mapping.linear import LinearMapping, prepare

    x_ND, mean_D = prepare(source_ND, normalise)
    z_MD, _ = prepare(target_MD, normalise)
    rotation_DD = rotation(x_ND[dictionary[0]], z_MD[dictionary[1]])
    return LinearMapping(mean_D, rotation_DD, normalise == "unit"), LinearMapping.identity(target_MD, normalise)
