"""Adversarial training of two flows against critics (Arjovsky et al., 2017; Zhao and Eger, 2022, section 3.2).

A critic h measures how far the mapped vectors of one language are from those of the other: over all functions h that
are nowhere steeper than 1,

    EMD(P_Ỹ, P_Y) = max_h E_y[h(y)] − E_x[h(f_{X→Y}(x))]

is the least work that moves one distribution onto the other. There is a critic for each direction (the dual form), and
both densities are modelled. With h on Y and k on X:

    critics    maximise   E_y[h(y)] − E_x[h(f_{X→Y}(x))] + E_x[k(x)] − E_y[k(f_{Y→X}(y))]
    flows      minimise   −E_x[h(f_{X→Y}(x))] − E_y[k(f_{Y→X}(y))] − λ (E_x[log P_X(x)] + E_y[log P_Y(y)])

Eq. 3 has the likelihood with a plus under the minimum; the text says that it is maximised, so its sign is changed here.
A constraint (see `bootstrapping`) is added to the loss of the flows.

The critic is no steeper than 1 by construction: none of its layers is (see `AlmostOrthogonal`), and between them is the
leaky ReLU. The paper says that it is 1-Lipschitz but not how; power iteration (Miyato et al., 2018) exceeded 1 by up to
17 % while a critic learned fast. Each step of the flows follows `critic_steps` of the critics.

Shapes: N and M words, B batch, S batches, D width, H and K units of a layer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.bootstrapping import ConstraintLoss
    from babelray.mapping.flow import FlowPair
    from babelray.mapping.gan_real_nvp import GanRealNvpConfig

LEAK, TINY = 0.2, 1e-12


class AlmostOrthogonal(nn.Module):
    """W ↦ D W, D_ii = (Σ_j |W Wᵀ|_ij)^(−1/2): no singular value above 1 (Prach and Lampert, 2022).

    I − D W Wᵀ D has no negative eigenvalue, since D⁻² − W Wᵀ is diagonally dominant.
    """

    def forward(self, weight_KH: Tensor) -> Tensor:
        return weight_KH * (weight_KH @ weight_KH.T).abs().sum(1, keepdim=True).clamp(min=TINY).rsqrt()


def critic(width: int, hidden: int) -> nn.Sequential:
    """h, nowhere steeper than 1: |h(a) − h(b)| ≤ ‖a − b‖."""
    layers = [nn.Linear(width, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)]
    for layer in layers:
        register_parametrization(layer, "weight", AlmostOrthogonal())
    return nn.Sequential(layers[0], nn.LeakyReLU(LEAK), layers[1], nn.LeakyReLU(LEAK), layers[2])


class AdversarialFlows:
    """The flows, their critics, and an epoch of their training; the flows' weights are changed in place."""

    def __init__(self, flows: FlowPair, config: GanRealNvpConfig, seed: int) -> None:
        width = flows.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.critic_x, self.critic_y = critic(width, config.critic_hidden), critic(width, config.critic_hidden)
        critics = [*self.critic_x.parameters(), *self.critic_y.parameters()]
        self.flows, self.config = flows, config
        self.flow_optimizer = torch.optim.RMSprop(flows.parameters(), config.learning_rate)
        self.critic_optimizer = torch.optim.RMSprop(critics, config.critic_learning_rate)
        self.generator = torch.Generator().manual_seed(seed)

    def epoch(self, x_ND: Tensor, y_MD: Tensor, constraint: ConstraintLoss | None = None) -> float:
        """As many steps as it takes to see every word: the mean distance, or the first that is not finite."""
        steps, total = math.ceil(max(len(x_ND), len(y_MD)) / self.config.batch_size), 0.0
        for _ in range(steps):
            x_SBD, y_SBD = self._draw(x_ND), self._draw(y_MD)
            distance = self._train_critics(x_SBD[:-1], y_SBD[:-1])
            mapped_BD, back_BD, density_B = self.flows.both_ways(x_SBD[-1], y_SBD[-1])
            loss = (
                -self.critic_y(mapped_BD).mean()
                - self.critic_x(back_BD).mean()
                - self.config.likelihood * density_B.mean()
            )
            if constraint is not None:
                loss = loss + constraint(self.flows, x_ND, y_MD, self.generator)
            if not math.isfinite(distance + loss.item()):
                return math.nan
            self.flow_optimizer.zero_grad()
            loss.backward()
            self.flow_optimizer.step()
            total += distance
        return total / steps

    def _draw(self, x_ND: Tensor) -> Tensor:
        shape = (self.config.critic_steps + 1, self.config.batch_size)
        return x_ND[torch.randint(len(x_ND), shape, generator=self.generator)]

    def _train_critics(self, x_SBD: Tensor, y_SBD: Tensor) -> float:
        """A step of the critics for each batch: the distance in the last one, summed over both spaces."""
        with torch.no_grad():
            mapped_SBD = self.flows(x_SBD.flatten(0, 1)).view_as(x_SBD)
            back_SBD = self.flows.back(y_SBD.flatten(0, 1)).view_as(y_SBD)
        for x_BD, y_BD, mapped_BD, back_BD in zip(x_SBD, y_SBD, mapped_SBD, back_SBD, strict=True):
            on_y_2B, on_x_2B = self.critic_y(torch.cat([y_BD, mapped_BD])), self.critic_x(torch.cat([x_BD, back_BD]))
            distance = sum((own.mean() - moved.mean() for own, moved in (on_y_2B.chunk(2), on_x_2B.chunk(2))), start=0)
            self.critic_optimizer.zero_grad()
            (-distance).backward()
            self.critic_optimizer.step()
        return distance.item()
