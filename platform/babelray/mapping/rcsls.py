"""RCSLS: a linear mapping trained for the retrieval that it will be used with (Joulin et al., 2018).

For pairs (x, z) of length-normalised vectors it minimises, over W,

    ℓ(W) = 1/P Σ_i [ -2 s(x_i, z_i) + 1/k Σ_{z ∈ N(x_i W)} s(x_i, z) + 1/k Σ_{x: xW ∈ N(z_i)} s(x, z_i) ]

with s(x, z) = xW·z, where N are the k nearest among the frequent words of the other language: the negative of CSLS.
It is a maximum of linear functions, hence convex, and is minimised by subgradient steps from the Procrustes solution;
a step that does not lower it is taken back, and the next is half as long. With `spectral` W is kept where no
direction is stretched (the convex hull of rotations).

Shapes: N and M words, P pairs, D width, K neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.mapping.linear import Dictionary, LinearMapping, unit_centred
from babelray.mapping.procrustes import rotation
from babelray.vectors.retrieval import nearest_by_product

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from babelray.mapping.config import RcslsConfig


def rcsls_loss(
    w_DD: Tensor, x_PD: Tensor, z_PD: Tensor, all_x_ND: Tensor, all_z_MD: Tensor, k: int
) -> tuple[float, Tensor]:
    """The loss and a subgradient (D, D) of it."""
    mapped_PD = x_PD @ w_DD
    near_z_PK = nearest_by_product(mapped_PD, all_z_MD, k)
    near_x_PK = nearest_by_product(z_PD, all_x_ND @ w_DD, k)
    around_z_PD = all_z_MD[near_z_PK].mean(1)
    around_x_PD = all_x_ND[near_x_PK].mean(1)
    value = (mapped_PD * (around_z_PD - 2 * z_PD)).sum() + ((around_x_PD @ w_DD) * z_PD).sum()
    slope_DD = x_PD.T @ (around_z_PD - 2 * z_PD) + around_x_PD.T @ z_PD
    return value.item() / len(x_PD), slope_DD / len(x_PD)


def rcsls(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary,
    config: RcslsConfig,
    advance: Callable[[int, float], None] = lambda iteration, loss: None,
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `advance` is told the loss of every step."""
    x_ND, mean_D = unit_centred(source_ND)
    z_MD, _ = unit_centred(target_MD)
    x_PD, z_PD = x_ND[dictionary[0]], z_MD[dictionary[1]]
    data = (x_PD, z_PD, x_ND[: config.words], z_MD[: config.words], min(config.neighbours, len(x_ND), len(z_MD)))
    w_DD, rate = rotation(x_PD, z_PD), config.learning_rate
    loss, slope_DD = rcsls_loss(w_DD, *data)
    for iteration in range(1, config.iterations + 1):
        tried_DD = w_DD - rate * slope_DD
        if config.spectral:
            u_DD, s_D, vt_DD = torch.linalg.svd(tried_DD)
            tried_DD = u_DD * s_D.clamp(max=1) @ vt_DD
        tried_loss, tried_slope_DD = rcsls_loss(tried_DD, *data)
        if tried_loss < loss:
            w_DD, loss, slope_DD = tried_DD, tried_loss, tried_slope_DD
        else:
            rate /= 2
        advance(iteration, loss)
    return LinearMapping(mean_D, w_DD), LinearMapping.identity(target_MD)
