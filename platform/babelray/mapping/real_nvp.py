"""Real-NVP: density matching and density modelling on translation pairs (Zhao and Eger, 2022, section 3.1).

Two flows into one Gaussian (see `flow`) give f_{X→Y} and its inverse. On pairs (x_i, y_i) of vectors they minimise the
paper's eq. 1, whose cross-entropy is a squared distance and whose entropy the flow knows (eq. 2), in both directions:

    L = 1/P Σ_i ‖f_{X→Y}(x_i) − y_i‖² + ‖f_{Y→X}(y_i) − x_i‖² − λ (log P_X(x_i) + log P_Y(y_i))

Each pair of rows teaches both the mapping and what vectors of each language look like. λ is 1e-4 (appendix A.1).

Written from the paper. Where it is silent, and where we differ:
- It calls the sum of both directions a dual form based on the Jensen-Shannon divergence and omits the definition. Ours
  is the sum of both directions of eq. 1.
- "Two FCNN networks with a dimension size of 512 for each" is read as two hidden layers of 512 units in the network of
  a coupling layer. The number of coupling layers is not given: 2 in each flow, so that every dimension is changed.
- Batch and learning rate are four times the paper's 32 and 1e-4: an epoch then takes 0.6 of the time.
- With `start: rotation` the flows begin at the Procrustes solution. The paper's vectors come from one encoder and
  agree to begin with; where they do not, as vectors of separate trainings, flows do not find a rotation from few pairs.

Shapes: N and M words, P pairs, B batch, D width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from babelray.mapping.criteria import best_epoch, check_trainable, held_back, judge, nearness
from babelray.mapping.linear import Dictionary, LinearMapping, prepared
from babelray.mapping.nonlinear import NonlinearMapping, build_network
from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor, nn

    from babelray.mapping.config import RealNvpConfig
    from babelray.mapping.criteria import Advance
    from babelray.mapping.flow import FlowPair
    from babelray.mapping.methods import Normalise


def density_loss(flows: FlowPair, x_BD: Tensor, y_BD: Tensor, likelihood: float) -> Tensor:
    """L of some pairs, divided by D: a mean over entries."""
    mapped_BD, back_BD, density_B = flows.both_ways(x_BD, y_BD)
    distance_B = (mapped_BD - y_BD).square().sum(1) + (back_BD - x_BD).square().sum(1)
    return (distance_B - likelihood * density_B).mean() / x_BD.shape[1]


def descend(
    loss: Callable[[Tensor, Tensor], Tensor],
    x_PD: Tensor,
    y_PD: Tensor,
    batch: int,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> float:
    """One epoch over all pairs in a new order: the mean loss, or the first that is not finite, which ends it."""
    total = 0.0
    for rows_B in torch.randperm(len(x_PD), generator=generator).split(batch):
        value = loss(x_PD[rows_B], y_PD[rows_B])
        if not math.isfinite(value.item()):
            return value.item()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        total += value.item() * len(rows_B)
    return total / len(x_PD)


def start_mapping(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: RealNvpConfig,
    how: Normalise,
    seed: int,
) -> tuple[NonlinearMapping, Tensor, Tensor]:
    """Flows that are the identity, after the rotation if there is one; and both sides as the flows see them."""
    x_ND, mean_D = prepared(source_ND, how)
    y_MD, _ = prepared(target_MD, how)
    width = x_ND.shape[1]
    turn_DD = torch.eye(width, dtype=x_ND.dtype)
    if config.start == "rotation" and dictionary is not None:
        turn_DD = rotation(x_ND[dictionary[0]], y_MD[dictionary[1]])
    scale = torch.cat([x_ND, y_MD]).square().mean().sqrt().item()
    settings = {"width": width, "layers": config.layers, "hidden": config.hidden, "depth": config.depth}
    network = seeded_network("flow", settings, seed)
    mapping = NonlinearMapping(LinearMapping(mean_D, turn_DD, how == "unit"), scale, network, "flow", settings)
    return mapping, x_ND @ turn_DD / scale, y_MD / scale


def seeded_network(kind: str, settings: dict[str, Any], seed: int) -> nn.Module:
    """A new network whose weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_network(kind, settings)


def real_nvp(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary,
    config: RealNvpConfig,
    seed: int = 1,
    advance: Advance = lambda epoch, value: None,
    how: Normalise = "unit",
) -> tuple[NonlinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `advance` is told the criterion of every epoch."""
    check_trainable(source_ND, target_MD, len(dictionary[0]), "pairs")
    generator = torch.Generator().manual_seed(seed)
    learned, validation = held_back(dictionary, config, generator)
    mapping, x_ND, y_MD = start_mapping(source_ND, target_MD, learned, config, how, seed)
    flows: Any = mapping.network
    x_PD, y_PD = x_ND[learned[0]], y_MD[learned[1]]
    optimizer = torch.optim.RMSprop(flows.parameters(), config.learning_rate)
    loss = lambda x_BD, y_BD: density_loss(flows, x_BD, y_BD, config.likelihood)  # noqa: E731
    best_epoch(
        flows,
        config.epochs,
        lambda: descend(loss, x_PD, y_PD, config.batch, optimizer, generator),
        judge(flows, x_ND, y_MD, config, nearness(how), validation),
        advance,
    )
    return mapping, LinearMapping.identity(target_MD, how)
