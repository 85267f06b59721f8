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

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.mapping.method import MAPPING_METHODS, MappingMethod, Notify, OnProgress
from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.linear import Dictionary, LinearMapping


@MAPPING_METHODS.register
class RcslsConfig(MappingMethod):
    """A linear mapping trained for the retrieval it is used with (Joulin et al., 2018); defaults as published."""

    unit_length = True

    method: Literal["rcsls"] = "rcsls"
    iterations: int = Field(10, ge=1)
    learning_rate: float = Field(1.0, gt=0)
    neighbours: int = Field(10, ge=1)
    words: int = Field(50_000, ge=2)
    """Frequent words among which neighbours are searched."""
    spectral: bool = False
    """Whether no direction may be stretched."""

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[LinearMapping, LinearMapping]:
        assert dictionary is not None  # `fit_mappings` checks it
        return rcsls(source_ND, target_MD, dictionary, self, lambda step, loss: notify(f"step {step}, loss {loss:.4f}"))


def rcsls_loss(
    w_DD: Tensor, x_PD: Tensor, z_PD: Tensor, all_x_ND: Tensor, all_z_MD: Tensor, k: int
) -> tuple[float, Tensor]:
    """The loss and a subgradient (D, D) of it."""
    from babelray.vectors.retrieval import nearest_by_product

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
    on_progress: OnProgress = lambda iteration, loss: None,
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `on_progress` receives the loss of every step."""
    import torch

    from babelray.mapping.linear import LinearMapping, unit_centred

    x_ND, mean_D = unit_centred(source_ND)
    z_MD, _ = unit_centred(target_MD)
    x_PD, z_PD = x_ND[dictionary[0]], z_MD[dictionary[1]]
    data = (x_PD, z_PD, x_ND[: config.words], z_MD[: config.words], min(config.neighbours, len(x_ND), len(z_MD)))
    w_DD, rate = rotation(x_PD, z_PD), config.learning_rate
    loss, slope_DD = rcsls_loss(w_DD, *data)
    for iteration in range(1, config.iterations + 1):
        new_DD = w_DD - rate * slope_DD
        if config.spectral:
            u_DD, s_D, vt_DD = torch.linalg.svd(new_DD)
            new_DD = u_DD * s_D.clamp(max=1) @ vt_DD
        new_loss, new_slope_DD = rcsls_loss(new_DD, *data)
        if new_loss < loss:
            w_DD, loss, slope_DD = new_DD, new_loss, new_slope_DD
        else:
            rate /= 2
        on_progress(iteration, loss)
    return LinearMapping(mean_D, w_DD), LinearMapping.identity(target_MD)
