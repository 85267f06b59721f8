"""Least squares: the linear mapping that brings one space nearest to another (Mikolov et al., 2013).

    W* = argmin_W ‖X W − Z‖²_F + λ ‖W − T‖²_F = (XᵀX + λI)⁻¹ (XᵀZ + λT)

It may stretch and squeeze, so the two sides need not have the same width. With fewer pairs than dimensions and λ = 0
the solution of least norm is taken. T is zero, or the identity: vectors of one multilingual encoder agree to begin
with, and what a few pairs say is then a correction of that, not a mapping from nothing.

Shapes: N and M words, D and E widths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.mapping.linear import Dictionary, LinearMapping, prepared
from babelray.mapping.methods import Normalise, Towards

if TYPE_CHECKING:
    from torch import Tensor


def least_squares(
    source_ND: Tensor,
    target_ME: Tensor,
    dictionary: Dictionary,
    ridge: float = 0.0,
    towards: Towards = "zero",
    how: Normalise = "unit",
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `ridge` is λ, `towards` says what T is."""
    x_ND, mean_D = prepared(source_ND, how)
    z_ME, _ = prepared(target_ME, how)
    x_PD, z_PE = x_ND[dictionary[0]].double(), z_ME[dictionary[1]].double()
    if ridge:
        gram_DD = x_PD.T @ x_PD + ridge * torch.eye(x_PD.shape[1], dtype=torch.double)
        moment_DE = x_PD.T @ z_PE
        if towards == "identity":
            moment_DE = moment_DE + ridge * torch.eye(*moment_DE.shape, dtype=torch.double)
        matrix_DE = torch.linalg.solve(gram_DD, moment_DE)
    else:
        matrix_DE = torch.linalg.pinv(x_PD) @ z_PE
    mapping = LinearMapping(mean_D, matrix_DE.to(source_ND.dtype), how == "unit")
    return mapping, LinearMapping.identity(target_ME, how)
