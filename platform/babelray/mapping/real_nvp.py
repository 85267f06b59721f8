"""Real-NVP: density matching and density modelling on translation pairs (Zhao and Eger, 2022, section 3.1).

Two flows into one Gaussian (see `flow`) give f_{X→Y} and its inverse. On pairs (x_i, y_i) of vectors they minimise the
paper's eq. 1, whose cross-entropy is a squared distance and whose entropy the flow knows (eq. 2), in both directions:

    L = 1/P Σ_i ‖f_{X→Y}(x_i) − y_i‖² + ‖f_{Y→X}(y_i) − x_i‖² − λ (log P_X(x_i) + log P_Y(y_i))

Each pair of rows trains both the mapping and the densities of the languages. λ is 1e-4 (appendix A.1).

Written from the paper. Where it is silent, and where we differ:
- It calls the sum of both directions a dual form based on the Jensen-Shannon divergence and omits the definition. Ours
  is the sum of both directions of eq. 1.
- "Two FCNN networks with a dimension size of 512 for each" is read as two hidden layers of 512 units in the network of
  a coupling layer. The number of coupling layers is not given: 2 in each flow, so that every dimension is changed.
- Batch size and learning rate are four times the paper's 32 and 1e-4: an epoch then takes 0.6 of the time.
- With `start: rotation` the flows begin at the Procrustes solution. The paper's vectors come from one encoder and
  agree to begin with; where they do not, as in separate trainings, flows do not find a rotation from few pairs.

Shapes: N and M words, P pairs, B batch, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from babelray.mapping.checkpoint import epoch_progress
from babelray.mapping.epochs import EpochsConfig, check_trainable, split_held_out, train_on_pairs
from babelray.mapping.method import MAPPING_METHODS, Notify, OnProgress
from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from babelray.mapping.fitted import Mapping
    from babelray.mapping.flow import FlowPair
    from babelray.mapping.linear import Dictionary, LinearMapping
    from babelray.mapping.nonlinear import NonlinearMapping


@MAPPING_METHODS.register
class RealNvpConfig(EpochsConfig):
    """Two flows that meet in one Gaussian: not linear, exactly invertible, also models the densities of both languages
    (Zhao and Eger, 2022); defaults as published but for the batch size and the learning rate.
    """

    method: Literal["real-nvp"] = "real-nvp"
    batch_size: int = Field(128, ge=1)
    """Pairs in a step. Published is 32, with a learning rate of 1e-4; both are four times that here, to save time."""
    learning_rate: float = Field(4e-4, gt=0)
    layers: int = Field(2, ge=2)
    """Coupling layers of each flow."""
    hidden: int = Field(512, ge=1)
    """Units of a hidden layer of a coupling layer's network …"""
    depth: int = Field(2, ge=1)
    """… and the number of these layers."""
    likelihood: float = Field(1e-4, ge=0)
    """Weight of the likelihood of both languages."""
    start: Literal["identity", "rotation"] = "identity"
    """Where the flows begin. Vectors of one encoder agree to begin with; others need the best rotation of the pairs."""

    @classmethod
    def build_network(cls, **settings: Any) -> nn.Module:
        from babelray.mapping.flow import FlowPair

        return FlowPair(**settings)

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[Mapping, LinearMapping]:
        assert dictionary is not None  # `fit_mappings` checks it
        return real_nvp(
            source_ND,
            target_MD,
            dictionary,
            self,
            seed,
            epoch_progress(self.epochs, notify),
        )


def density_loss(flows: FlowPair, x_BD: Tensor, y_BD: Tensor, likelihood: float) -> Tensor:
    """L of some pairs, divided by D: a mean over entries."""
    mapped_BD, back_BD, density_B = flows.both_ways(x_BD, y_BD)
    distance_B = (mapped_BD - y_BD).square().sum(1) + (back_BD - x_BD).square().sum(1)
    return (distance_B - likelihood * density_B).mean() / x_BD.shape[1]


def start_mapping(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: RealNvpConfig,
    seed: int,
) -> tuple[NonlinearMapping, Tensor, Tensor]:
    """Flows that are the identity, after the rotation if there is one; and both sides as the flows see them."""
    import torch

    from babelray.mapping.linear import LinearMapping, prepare
    from babelray.mapping.nonlinear import NonlinearMapping, build_network

    x_ND, mean_D = prepare(source_ND, config.normalise)
    y_MD, _ = prepare(target_MD, config.normalise)
    width = x_ND.shape[1]
    rotation_DD = torch.eye(width, dtype=x_ND.dtype)
    if config.start == "rotation" and dictionary is not None:
        rotation_DD = rotation(x_ND[dictionary[0]], y_MD[dictionary[1]])
    scale = torch.cat([x_ND, y_MD]).square().mean().sqrt().item()
    settings = {"width": width, "layers": config.layers, "hidden": config.hidden, "depth": config.depth}
    network = build_network(config.method, settings, seed)
    preparation = LinearMapping(mean_D, rotation_DD, config.normalise == "unit")
    mapping = NonlinearMapping(preparation, scale, network, config.method, settings)
    return mapping, x_ND @ rotation_DD / scale, y_MD / scale


def real_nvp(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary,
    config: RealNvpConfig,
    seed: int = 1,
    on_progress: OnProgress = lambda epoch, value: None,
) -> tuple[NonlinearMapping, LinearMapping]:
    """Mappings of both sides, fitted on pairs of positions; `on_progress` receives the criterion of every epoch."""
    import torch

    from babelray.mapping.linear import LinearMapping

    check_trainable(source_ND, target_MD, len(dictionary[0]), "pairs")
    generator = torch.Generator().manual_seed(seed)
    pairs = split_held_out(dictionary, config, generator)
    mapping, x_ND, y_MD = start_mapping(source_ND, target_MD, pairs[0], config, seed)
    flows: Any = mapping.network
    optimizer = torch.optim.RMSprop(flows.parameters(), config.learning_rate)
    loss = lambda x_BD, y_BD: density_loss(flows, x_BD, y_BD, config.likelihood)  # noqa: E731
    train_on_pairs(flows, loss, optimizer, (x_ND, y_MD), pairs, config, generator, on_progress)
    return mapping, LinearMapping.identity(target_MD, config.normalise)
