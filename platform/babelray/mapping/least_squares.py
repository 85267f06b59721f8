"""Least squares: the linear mapping that brings one space nearest to another (Mikolov et al., 2013).

    W* = argmin_W ‖X W − Z‖²_F + λ ‖W − T‖²_F = (XᵀX + λI)⁻¹ (XᵀZ + λT)

It may stretch and squeeze, so the two sides need not have the same width. With fewer pairs than dimensions and λ = 0
the solution of least norm is taken. T is zero, or the identity: vectors of one multilingual encoder agree to begin
with, and a few pairs then give a correction of that, not a mapping from nothing.

Shapes: N and M words, D and E widths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.mapping.method import MAPPING_METHODS, MappingMethod, Normalise, Notify

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.linear import Dictionary, LinearMapping

Target = Literal["zero", "identity"]


@MAPPING_METHODS.register
class LeastSquaresConfig(MappingMethod):
    """The best linear mapping; the two sides may differ in width (Mikolov et al., 2013)."""

    same_width = False

    method: Literal["least-squares"] = "least-squares"
    ridge: float = Field(0.0, ge=0)
    """λ: how strongly the mapping is shrunk …"""
    shrink_to: Target = "zero"
    """… to zero, or to the identity: where both sides come from one encoder, they agree to begin with."""

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[LinearMapping, LinearMapping]:
        assert dictionary is not None  # `fit_mappings` checks it
        return least_squares(source_ND, target_MD, dictionary, self.ridge, self.shrink_to, self.normalise)


def least_squares(
    source_ND: Tensor,
    target_ME: Tensor,
    dictionary: Dictionary,
    ridge: float = 0.0,
    shrink_to: Target = "zero",
    normalise: Normalise = "unit",
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `ridge` is λ, `shrink_to` names T."""
    import torch

    from babelray.mapping.linear import LinearMapping, prepare

    x_ND, mean_D = prepare(source_ND, normalise)
    z_ME, _ = prepare(target_ME, normalise)
    x_PD, z_PE = x_ND[dictionary[0]].double(), z_ME[dictionary[1]].double()
    if ridge:
        gram_DD = x_PD.T @ x_PD + ridge * torch.eye(x_PD.shape[1], dtype=torch.double)
        moment_DE = x_PD.T @ z_PE
        if shrink_to == "identity":
            moment_DE = moment_DE + ridge * torch.eye(*moment_DE.shape, dtype=torch.double)
        matrix_DE = torch.linalg.solve(gram_DD, moment_DE)
    else:
        matrix_DE = torch.linalg.pinv(x_PD) @ z_PE
    mapping = LinearMapping(mean_D, matrix_DE.to(source_ND.dtype), normalise == "unit")
    return mapping, LinearMapping.identity(target_ME, normalise)
