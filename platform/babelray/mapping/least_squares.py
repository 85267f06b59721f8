"""Least squares: the linear mapping that brings one space nearest to another (Mikolov et al., 2013).

    W* = argmin_W ‖X W − Z‖²_F + λ ‖W‖²_F = (XᵀX + λI)⁻¹ XᵀZ

It may stretch and squeeze, so the two sides need not have the same width. With fewer pairs than dimensions and λ = 0
the solution of least norm is taken.

Shapes: N and M words, D and E widths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.mapping.linear import Dictionary, LinearMapping, unit_centred

if TYPE_CHECKING:
    from torch import Tensor


def least_squares(
    source_ND: Tensor, target_ME: Tensor, dictionary: Dictionary, ridge: float = 0.0
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `ridge` is λ."""
    x_ND, mean_D = unit_centred(source_ND)
    z_ME, _ = unit_centred(target_ME)
    x_PD, z_PE = x_ND[dictionary[0]].double(), z_ME[dictionary[1]].double()
    if ridge:
        gram_DD = x_PD.T @ x_PD + ridge * torch.eye(x_PD.shape[1], dtype=torch.double)
        matrix_DE = torch.linalg.solve(gram_DD, x_PD.T @ z_PE)
    else:
        matrix_DE = torch.linalg.pinv(x_PD) @ z_PE
    return LinearMapping(mean_D, matrix_DE.to(source_ND.dtype)), LinearMapping.identity(target_ME)
