"""Orthogonal Procrustes: the rotation that brings one space nearest to another on translation pairs.

    W* = argmin_{WᵀW = I} ‖X W − Z‖_F = U Vᵀ,   U Σ Vᵀ = svd(Xᵀ Z)

(Schönemann, 1966; for embeddings Xing et al., 2015.) The target stays as it is but for normalisation.

Shapes: N and M words, P pairs, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.mapping.linear import Dictionary, LinearMapping, prepared

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.methods import Normalise


def rotation(x_PD: Tensor, z_PD: Tensor) -> Tensor:
    """The best rotation (D, D) of pairs of rows, computed in double precision."""
    u_DD, _, vt_DD = torch.linalg.svd(x_PD.double().T @ z_PD.double())
    return (u_DD @ vt_DD).to(x_PD.dtype)


def procrustes(
    source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary, how: Normalise = "unit"
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions."""
    x_ND, mean_D = prepared(source_ND, how)
    z_MD, _ = prepared(target_MD, how)
    turn_DD = rotation(x_ND[dictionary[0]], z_MD[dictionary[1]])
    return LinearMapping(mean_D, turn_DD, how == "unit"), LinearMapping.identity(target_MD, how)
