"""GAN-Real-NVP: density matching without any dictionary, by a game with critics (Zhao and Eger, 2022, section 3.2).

The flows of Real-NVP (see `flow`) learn to bring the vectors of one language where those of the other lie. How far they
are from it a critic h says (Arjovsky et al., 2017): over all functions h that are nowhere steeper than 1,

    EMD(P_Ỹ, P_Y) = max_h E_y[h(y)] − E_x[h(f_{X→Y}(x))]

is the least work that moves one heap of vectors onto the other. There is a critic for each direction (the dual form),
and both densities are modelled. With h on Y and k on X:

    critics    maximise   E_y[h(y)] − E_x[h(f_{X→Y}(x))] + E_x[k(x)] − E_y[k(f_{Y→X}(y))]
    flows      minimise   −E_x[h(f_{X→Y}(x))] − E_y[k(f_{Y→X}(y))] − λ (E_x[log P_X(x)] + E_y[log P_Y(y)])

Eq. 3 has the likelihood with a plus under the minimum; the text says that it is maximised, so its sign is changed here.
A constraint (see `bootstrapping`) is added to what the flows minimise.

The critic is no steeper than 1 by what it is made of: layers none of which is (see `AlmostOrthogonal`), and between
them the leaky ReLU. The paper says that it is 1-Lipschitz but not how; power iteration (Miyato et al., 2018) exceeded
1 by up to 17 % while a critic learned fast. Each step of the flows follows `critic_steps` of the critics.

Shapes: N and M words, B batch, S batches, D width, H and K units of a layer.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

from babelray.errors import DataError
from babelray.mapping.criteria import best_epoch, check_trainable, judge, nearness
from babelray.mapping.linear import Dictionary, LinearMapping
from babelray.mapping.nonlinear import NonlinearMapping
from babelray.mapping.real_nvp import start_mapping

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor

    from babelray.mapping.config import GanRealNvpConfig
    from babelray.mapping.criteria import Advance
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.flow import FlowPair
    from babelray.mapping.methods import Normalise

    Constraint = Callable[[Callable[[Tensor], Tensor], Tensor, Tensor, torch.Generator], Tensor]

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


class Game:
    """The flows, their critics, and an epoch of their game; the flows' weights are changed in place."""

    def __init__(self, flows: FlowPair, config: GanRealNvpConfig, seed: int) -> None:
        width = flows.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.of_x, self.of_y = critic(width, config.critic_hidden), critic(width, config.critic_hidden)
        critics = [*self.of_x.parameters(), *self.of_y.parameters()]
        self.flows, self.config = flows, config
        self.mover = torch.optim.RMSprop(flows.parameters(), config.learning_rate)
        self.judge = torch.optim.RMSprop(critics, config.critic_learning_rate)
        self.generator = torch.Generator().manual_seed(seed)

    def epoch(self, x_ND: Tensor, y_MD: Tensor, constraint: Constraint | None = None) -> float:
        """As many steps as it takes to see every word: the mean distance, or the first that is not finite."""
        steps, total = math.ceil(max(len(x_ND), len(y_MD)) / self.config.batch), 0.0
        for _ in range(steps):
            x_SBD, y_SBD = self._draw(x_ND), self._draw(y_MD)
            distance = self._criticise(x_SBD[:-1], y_SBD[:-1])
            mapped_BD, back_BD, density_B = self.flows.both_ways(x_SBD[-1], y_SBD[-1])
            loss = -self.of_y(mapped_BD).mean() - self.of_x(back_BD).mean() - self.config.likelihood * density_B.mean()
            if constraint is not None:
                loss = loss + constraint(self.flows, x_ND, y_MD, self.generator)
            if not math.isfinite(distance + loss.item()):
                return math.nan
            self.mover.zero_grad()
            loss.backward()
            self.mover.step()
            total += distance
        return total / steps

    def _draw(self, x_ND: Tensor) -> Tensor:
        shape = (self.config.critic_steps + 1, self.config.batch)
        return x_ND[torch.randint(len(x_ND), shape, generator=self.generator)]

    def _criticise(self, x_SBD: Tensor, y_SBD: Tensor) -> float:
        """A step of the critics for each batch: how far apart they found the languages in the last, in both spaces."""
        with torch.no_grad():
            mapped_SBD = self.flows(x_SBD.flatten(0, 1)).view_as(x_SBD)
            back_SBD = self.flows.back(y_SBD.flatten(0, 1)).view_as(y_SBD)
        for x_BD, y_BD, mapped_BD, back_BD in zip(x_SBD, y_SBD, mapped_SBD, back_SBD, strict=True):
            of_y_2B, of_x_2B = self.of_y(torch.cat([y_BD, mapped_BD])), self.of_x(torch.cat([x_BD, back_BD]))
            distance = sum(
                (here.mean() - moved.mean() for here, moved in (of_y_2B.chunk(2), of_x_2B.chunk(2))), start=0
            )
            self.judge.zero_grad()
            (-distance).backward()
            self.judge.step()
        return distance.item()


def gan_real_nvp(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: GanRealNvpConfig,
    seed: int = 1,
    advance: Advance = lambda epoch, value: None,
    how: Normalise = "unit",
    before: Mapping | None = None,
    constraint: Constraint | None = None,
) -> tuple[NonlinearMapping, LinearMapping]:
    """Mappings of both sides; `advance` is told the criterion of every epoch.

    A dictionary is where it starts (`start: rotation`) or what it is validated with (`select: validation`), no more.
    `before` is a mapping to go on from; one that is linear stands for the identity.
    """
    if (dictionary is None) == config.uses_dictionary:
        raise DataError(
            f"gan-real-nvp {'needs a' if dictionary is None else 'has no use for the'} dictionary as it is set",
            "Give one for `start: rotation` or `select: validation`, and for nothing else; real-nvp learns from one.",
        )
    x_ND, y_MD = source_ND[: config.frequent], target_MD[: config.frequent]
    check_trainable(x_ND, y_MD, min(len(x_ND), len(y_MD)), "words")
    mapping, x_ND, y_MD = start_mapping(source_ND, target_MD, dictionary, config, how, seed)
    if isinstance(before, NonlinearMapping):
        mapping = replace(mapping, network=copy.deepcopy(before.network))
    flows: Any = mapping.network
    game = Game(flows, config, seed)
    best_epoch(
        flows,
        config.epochs,
        lambda: game.epoch(x_ND[: config.frequent], y_MD[: config.frequent], constraint),
        judge(flows, x_ND, y_MD, config, nearness(how), dictionary),
        advance,
    )
    return mapping, LinearMapping.identity(target_MD, how)
