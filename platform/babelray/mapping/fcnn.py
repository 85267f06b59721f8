"""FCNN: three fully-connected layers, each followed by tanh, trained on translation pairs (Zhao and Eger, 2022, 4.1).

    f(x) = tanh(W₃ tanh(W₂ tanh(W₁ x + b₁) + b₂) + b₃),   L = 1/P Σ_i ‖f(x_i) − y_i‖²

with Adam, learning rate 1e-4, batches of 32 and 1024 hidden units (appendix A.1). What comes out lies between −1 and 1,
so both sides are divided by their largest entry first. Unlike the flows it cannot be inverted, and starts at random.

Shapes: N and M words, P pairs, B batch, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from babelray.mapping.criteria import best_epoch, check_trainable, held_back, judge, nearness
from babelray.mapping.linear import Dictionary, LinearMapping, prepared
from babelray.mapping.nonlinear import NonlinearMapping
from babelray.mapping.real_nvp import descend, seeded_network

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.config import FcnnConfig
    from babelray.mapping.criteria import Advance
    from babelray.mapping.methods import Normalise


class Fcnn(nn.Sequential):
    """f, with as many entries out as in."""

    def __init__(self, width: int, hidden: int) -> None:
        sizes = [(width, hidden), (hidden, hidden), (hidden, width)]
        super().__init__(*(layer for size in sizes for layer in (nn.Linear(*size), nn.Tanh())))


def fcnn(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary,
    config: FcnnConfig,
    seed: int = 1,
    advance: Advance = lambda epoch, value: None,
    how: Normalise = "unit",
) -> tuple[NonlinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `advance` is told the criterion of every epoch."""
    check_trainable(source_ND, target_MD, len(dictionary[0]), "pairs")
    generator = torch.Generator().manual_seed(seed)
    learned, validation = held_back(dictionary, config, generator)
    before, after = (LinearMapping.identity(side, how) for side in (source_ND, target_MD))
    x_ND, y_MD = prepared(source_ND, how)[0], prepared(target_MD, how)[0]
    scale = max(x_ND.abs().max().item(), y_MD.abs().max().item())
    x_ND, y_MD = x_ND / scale, y_MD / scale
    settings = {"width": x_ND.shape[1], "hidden": config.hidden}
    network = seeded_network("fcnn", settings, seed)
    optimizer = torch.optim.Adam(network.parameters(), config.learning_rate)
    loss = lambda x_BD, y_BD: functional.mse_loss(network(x_BD), y_BD)  # noqa: E731
    x_PD, y_PD = x_ND[learned[0]], y_MD[learned[1]]
    best_epoch(
        network,
        config.epochs,
        lambda: descend(loss, x_PD, y_PD, config.batch, optimizer, generator),
        judge(network, x_ND, y_MD, config, nearness(how), validation),
        advance,
    )
    return NonlinearMapping(before, scale, network, "fcnn", settings), after
