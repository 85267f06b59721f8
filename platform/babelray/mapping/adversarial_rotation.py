"""Adversarial training of a rotation W against a discriminator (Conneau et al., 2018, sections 2.1 and 3.3).

A discriminator sees words of both languages and learns which are source words that W has mapped; W learns to make that
impossible. With P(x) the discriminator's probability that x is a mapped source word, and H_t(p) = -t log p -
(1 - t) log(1 - p) the cross-entropy with the smoothed label t:

    discriminator   L_D = 1/n Σ_i H_{1-s}(P(x_i W)) + 1/m Σ_j H_s(P(z_j))
    mapping         L_W = 1/n Σ_i H_s(P(x_i W))                            the part that depends on W
    orthogonality   W ← (1 + β) W − β (W Wᵀ) W                             after each step of W

The discriminator takes `discriminator_steps` for each step of W.

Shapes: N and M words, B batch, S batches, D width, H and K units of a layer.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.bootstrapping import ConstraintLoss
    from babelray.mapping.muse import MuseConfig

LEAK = 0.2
Layers = list[tuple["Tensor", "Tensor"]]
"""The discriminator: weights (H, K) and biases (K) of its layers."""


def discriminator(width: int, hidden: int, generator: torch.Generator) -> Layers:
    """Two hidden layers, drawn evenly within ±1/√(inputs)."""

    def even(inputs: int, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator).mul_(2).sub_(1).div_(math.sqrt(inputs))

    return [(even(a, a, b), even(a, b)) for a, b in pairwise((width, hidden, hidden, 1))]


def descend(layers: Layers, x_BD: Tensor, label_B1: Tensor, rate: float = 0.0) -> Tensor:
    """The slope (B, D) at the input of Σ H_label(P(x)); with a rate the layers take a step down theirs, in place.

    Without autograd: a step that is added to the weights by the product that computes it needs no memory for slopes.
    """
    inputs = [x_BD]
    for weight_HK, bias_K in layers[:-1]:
        inputs.append(functional.leaky_relu_(torch.addmm(bias_K, inputs[-1], weight_HK), LEAK))
    weight_HK, bias_K = layers[-1]
    slope_BK = torch.addmm(bias_K, inputs[-1], weight_HK).sigmoid_() - label_B1
    for depth in range(len(layers) - 1, -1, -1):
        weight_HK, bias_K = layers[depth]
        below_BH = slope_BK @ weight_HK.T
        if rate:
            weight_HK.addmm_(inputs[depth].T, slope_BK, alpha=-rate)
            bias_K.sub_(slope_BK.sum(0), alpha=rate)
        slope_BK = torch.where(inputs[depth] > 0, below_BH, LEAK * below_BH) if depth else below_BH
    return slope_BK


def toward_rotation(w_DD: Tensor, beta: float) -> Tensor:
    """(1 + β) W − β (W Wᵀ) W: every singular value s becomes s + β s (1 - s²), nearer to 1."""
    return torch.addmm(w_DD, w_DD @ w_DD.T, w_DD, beta=1 + beta, alpha=-beta)


def train_epoch(
    sides: tuple[Tensor, Tensor],
    w_DD: Tensor,
    layers: Layers,
    rate: float,
    config: MuseConfig,
    generator: torch.Generator,
    constraint: ConstraintLoss | None = None,
) -> Tensor:
    """One epoch: the next W; the discriminator's layers are changed in place.

    A constraint on W (see `bootstrapping`) is added to L_W.
    """
    (x_ND, z_MD), batch, steps = sides, config.batch_size, config.discriminator_steps
    source_label_B1 = torch.full((batch, 1), 1 - config.smoothing)
    label_B1 = torch.cat([source_label_B1, 1 - source_label_B1])
    for _ in range(config.steps):
        x_SBD = x_ND[torch.randint(len(x_ND), (steps + 1, batch), generator=generator)]
        z_SBD = z_MD[torch.randint(len(z_MD), (steps, batch), generator=generator)]
        mapped_SBD = x_SBD @ w_DD
        for mapped_BD, z_BD in zip(mapped_SBD, z_SBD, strict=False):
            input_BD = torch.cat([mapped_BD, z_BD])
            descend(layers, input_BD * dropout(input_BD, config.input_dropout, generator), label_B1, rate / batch)
        mask_BD = dropout(mapped_SBD[-1], config.input_dropout, generator)
        slope_BD = descend(layers, mapped_SBD[-1] * mask_BD, 1 - source_label_B1) * mask_BD
        next_DD = torch.addmm(w_DD, x_SBD[-1].T, slope_BD, alpha=-rate / batch)
        if constraint is not None:
            next_DD.sub_(_slope(constraint, w_DD, sides, generator), alpha=rate)
        w_DD = toward_rotation(next_DD, config.orthogonality)
    return w_DD


def _slope(
    constraint: ConstraintLoss, w_DD: Tensor, sides: tuple[Tensor, Tensor], generator: torch.Generator
) -> Tensor:
    """The slope (D, D) of a constraint at W."""
    free_DD = w_DD.clone().requires_grad_()
    return torch.autograd.grad(constraint(lambda x_BD: x_BD @ free_DD, *sides, generator), free_DD)[0]


def dropout(x_BD: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """The factor of each entry: 0 for a share of them, and for the others one that keeps the mean."""
    return torch.empty_like(x_BD).bernoulli_(1 - share, generator=generator).div_(1 - share)
