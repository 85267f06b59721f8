"""FCNN: three fully-connected layers, each followed by tanh, trained on translation pairs (Zhao and Eger, 2022, 4.1).

    f(x) = tanh(W₃ tanh(W₂ tanh(W₁ x + b₁) + b₂) + b₃),   L = 1/P Σ_i ‖f(x_i) − y_i‖²

with Adam, learning rate 1e-4, batches of 32 and 1024 hidden units (appendix A.1). The output lies between −1 and 1, so
both sides are divided by their largest entry first. Unlike the flows it cannot be inverted, and starts at random.

Shapes: N and M words, P pairs, B batch, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from babelray.mapping.checkpoint import epoch_progress
from babelray.mapping.epochs import EpochsConfig, check_trainable, split_held_out, train_on_pairs
from babelray.mapping.method import MAPPING_METHODS, Notify, OnProgress

if TYPE_CHECKING:
    from torch import Tensor, nn

    from babelray.mapping.linear import Dictionary, LinearMapping
    from babelray.mapping.nonlinear import NonlinearMapping


@MAPPING_METHODS.register
class FcnnConfig(EpochsConfig):
    """A network of three layers (Zhao and Eger, 2022); defaults as published."""

    method: Literal["fcnn"] = "fcnn"
    hidden: int = Field(1024, ge=1)
    """Units of a hidden layer."""

    @classmethod
    def build_network(cls, **settings: Any) -> nn.Module:
        return tanh_network(**settings)

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[NonlinearMapping, LinearMapping]:
        assert dictionary is not None  # `fit_mappings` checks it
        return fcnn(
            source_ND,
            target_MD,
            dictionary,
            self,
            seed,
            epoch_progress(self.epochs, notify),
        )


def tanh_network(width: int, hidden: int) -> nn.Sequential:
    """f, with as many outputs as inputs."""
    from torch import nn

    sizes = [(width, hidden), (hidden, hidden), (hidden, width)]
    return nn.Sequential(*(layer for size in sizes for layer in (nn.Linear(*size), nn.Tanh())))


def fcnn(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary,
    config: FcnnConfig,
    seed: int = 1,
    on_progress: OnProgress = lambda epoch, value: None,
) -> tuple[NonlinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `on_progress` receives the criterion of every epoch."""
    import torch
    from torch.nn import functional

    from babelray.mapping.linear import LinearMapping, prepare
    from babelray.mapping.nonlinear import NonlinearMapping, build_network

    check_trainable(source_ND, target_MD, len(dictionary[0]), "pairs")
    generator = torch.Generator().manual_seed(seed)
    pairs = split_held_out(dictionary, config, generator)
    source, target = (LinearMapping.identity(side, config.normalise) for side in (source_ND, target_MD))
    x_ND, y_MD = prepare(source_ND, config.normalise)[0], prepare(target_MD, config.normalise)[0]
    scale = max(x_ND.abs().max().item(), y_MD.abs().max().item())
    x_ND, y_MD = x_ND / scale, y_MD / scale
    settings = {"width": x_ND.shape[1], "hidden": config.hidden}
    network = build_network(config.method, settings, seed)
    optimizer = torch.optim.Adam(network.parameters(), config.learning_rate)
    loss = lambda x_BD, y_BD: functional.mse_loss(network(x_BD), y_BD)  # noqa: E731
    train_on_pairs(network, loss, optimizer, (x_ND, y_MD), pairs, config, generator, on_progress)
    return NonlinearMapping(source, scale, network, config.method, settings), target
