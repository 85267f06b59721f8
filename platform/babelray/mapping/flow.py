"""Two Real-NVP flows that meet in one Gaussian: a mapping of two spaces that goes both ways, with exact densities.

A coupling layer (Dinh et al., 2017, section 3.2) leaves one half a of a vector as it is, and stretches and shifts the
other half b by amounts that a network computes from the first:

    a' = a,   b' = b ⊙ exp(s(a)) + t(a),   log |det ∂(a', b')/∂(a, b)| = Σ_i s_i(a)

The halves alternate. Each language has a flow into Z ~ N(0, I), the latent space that all share (Zhao and Eger, 2022,
section 3.1), so that a vector of one language becomes one of the other by way of Z:

    f_{X→Y} = f_{Y→Z}⁻¹ ∘ f_{X→Z},   log P_Y(y) = log N(f_{Y→Z}(y); 0, I) + log |det ∂f_{Y→Z}(y)/∂y|    (their eq. 2)

The last layer of every s and t starts at zero, so that all maps start as the identity, as in their Algorithm 1. The
layers are zuko's. exp(s) is kept between 1/10 and 10, without a kink, so that a word far from all that a flow has seen
is not thrown out of the space.

Shapes: B vectors, D width.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

LEAST = 0.1
"""A layer squeezes no entry by more, and stretches none by more than its inverse."""


class FlowPair(nn.Module):
    """A flow of each language into Z; called, it maps source vectors to target vectors."""

    def __init__(self, width: int, layers: int, hidden: int, depth: int) -> None:
        from zuko.flows import RealNVP
        from zuko.transforms import MonotonicAffineTransform

        super().__init__()
        self.width = width
        settings = {"hidden_features": [hidden] * depth, "univariate": partial(MonotonicAffineTransform, slope=LEAST)}
        self.source, self.target = (RealNVP(width, transforms=layers, **settings) for _ in "xy")
        for flow in (self.source, self.target):
            for layer in flow.transform.transforms:
                nn.init.zeros_(layer.hyper[-1].weight)
                nn.init.zeros_(layer.hyper[-1].bias)

    def forward(self, x_BD: Tensor) -> Tensor:
        """f_{X→Y}."""
        return self.target.transform().inv(self.source.transform()(x_BD))

    def back(self, y_BD: Tensor) -> Tensor:
        """f_{Y→X}, the exact inverse."""
        return self.source.transform().inv(self.target.transform()(y_BD))

    def both_ways(self, x_BD: Tensor, y_BD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f_{X→Y}(x), f_{Y→X}(y), and log P_X(x) + log P_Y(y) of each row, for which Z is reached once."""
        source, target = self.source.transform(), self.target.transform()
        z_x_BD, stretch_x_B = source.call_and_ladj(x_BD)
        z_y_BD, stretch_y_B = target.call_and_ladj(y_BD)
        density_B = _log_normal(z_x_BD) + stretch_x_B + _log_normal(z_y_BD) + stretch_y_B
        return target.inv(z_x_BD), source.inv(z_y_BD), density_B


def _log_normal(z_BD: Tensor) -> Tensor:
    return -(z_BD.square() + math.log(2 * math.pi)).sum(1) / 2
