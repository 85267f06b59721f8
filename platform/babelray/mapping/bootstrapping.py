"""Bootstrapping: a mapping learns from the translations it induces (Zhao and Eger, 2022, section 3.2, Algorithm 1).

Two languages that are equal in distribution need not be equal: Y uniform on (−1, 1) and Ỹ = −Y. By their Prop. 1 they
are equal if (i) Y = UỸ with an invertible U ≥ 0, or (ii) every component of Ỹ correlates with that of Y by 1. So
induce pairs by CSLS, train again with a constraint on these that pulls toward one of the conditions, n times. (i) is
weaker than stated: if U swaps two components that are distributed alike, it holds, and Y and Ỹ differ; what eq. 4
asks for holds for every rotation. (ii) has no such gap, and did better in their experiments.

    graph structure      g = ‖Ỹ Ỹᵀ − Y Yᵀ‖²                                                  (eq. 4, for i)
    cross-correlation    g = ‖diag(ỸᵀY) / √(diag(ỸᵀỸ) diag(YᵀY)) − 1‖²,  Ỹ and Y centred      (eq. 5, for ii)
    procrustes           no adversarial training any more: the best rotation of X on the pairs

Written from the paper. Where it is silent, and where we differ:
- Eq. 5 has no root in its denominator. Without it the expression is not the correlation that the text calls it.
- Both are computed on pairs that are drawn anew for every step. Eq. 4 is a mean over the cells, divided by D, the
  variance of the product of two independent vectors whose entries have variance 1, as the networks' inputs have: its
  gradients are then no steeper than those of eq. 5. A rotation, such as MUSE's, leaves every graph as it is: there the
  constraint only keeps W a rotation.
- By Algorithm 1 the pairs of the first iteration are those that the identity makes; by section 2 the method itself
  makes them. `first` chooses; the default is the method, trained without constraint.
- "+ Procrustes" is not defined for a flow. Its figures in table 1 are those of a rotation, so it is a rotation here.

Shapes: N and M words, P pairs, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.config import Config
from babelray.mapping.procrustes import procrustes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from babelray.mapping.fitted import Mapping
    from babelray.mapping.linear import Dictionary, LinearMapping
    from babelray.mapping.method import Normalise, Notify

    ConstraintLoss = Callable[[Callable[[Tensor], Tensor], Tensor, Tensor, torch.Generator], Tensor]
    """Of a function that maps vectors, and the vectors of both sides."""
    Train = Callable[[Mapping | None, ConstraintLoss | None], Mapping]
    """Trains from an initial mapping on, if there is one, under a constraint, if there is one."""


class BootstrapConfig(Config):
    """Training again, `iterations` times, under a constraint on the translations that the mapping induces."""

    constraint: Literal["cross-correlation", "graph", "procrustes"] = "cross-correlation"
    iterations: int = Field(3, ge=1)
    """Published: 3 for real data, 10 in a simulated world."""
    first: Literal["method", "identity"] = "method"
    """The mapping that induces the first translations: the method's, trained without constraint, or the identity."""
    weight: float = Field(1.0, gt=0)
    """Weight of the constraint in the loss."""
    batch_size: int = Field(256, ge=2)
    """Pairs in a step that it is computed on."""
    words: int = Field(10_000, ge=2)
    """Frequent words of each side among which translations are searched …"""
    pairs: int = Field(30_000, ge=2)
    """… of which the most confident are taken, if they are each other's best."""
    csls: int = Field(10, ge=0)


def graph_structure(mapped_PD: Tensor, target_PD: Tensor) -> Tensor:
    """Eq. 4, per cell and dimension: the squared difference of the products of rows between the sides."""
    difference_PP = mapped_PD @ mapped_PD.T - target_PD @ target_PD.T
    return difference_PP.square().mean() / mapped_PD.shape[1]


def cross_correlation(mapped_PD: Tensor, target_PD: Tensor) -> Tensor:
    """Eq. 5: the squared distance of the correlations of corresponding dimensions from 1."""
    return (correlation(mapped_PD, target_PD) - 1).square().sum()


def correlation(mapped_PD: Tensor, target_PD: Tensor) -> Tensor:
    """Pearson's correlation (D) of each dimension of one side with the same of the other; 0 where one is constant."""
    import torch

    x_PD, y_PD = mapped_PD - mapped_PD.mean(0), target_PD - target_PD.mean(0)
    return torch.cosine_similarity(x_PD, y_PD, dim=0)


@dataclass(frozen=True)
class Constraint:
    """g on a sample of the pairs; called with a function that maps vectors, and with the vectors of both sides."""

    pairs: Dictionary
    config: BootstrapConfig

    def __call__(
        self, function: Callable[[Tensor], Tensor], x_ND: Tensor, y_MD: Tensor, generator: torch.Generator
    ) -> Tensor:
        import torch

        rows_P, columns_P = self.pairs
        sample_P = torch.randint(len(rows_P), (min(self.config.batch_size, len(rows_P)),), generator=generator)
        g = graph_structure if self.config.constraint == "graph" else cross_correlation
        return self.config.weight * g(function(x_ND[rows_P[sample_P]]), y_MD[columns_P[sample_P]])


def train_bootstrapped(
    source_ND: Tensor,
    target_MD: Tensor,
    train: Train,
    config: BootstrapConfig | None,
    normalise: Normalise,
    notify: Notify,
) -> tuple[Mapping, LinearMapping]:
    """Mappings of both sides by a method that needs no dictionary, bootstrapped if there is a config."""
    from babelray.mapping.linear import LinearMapping

    target = LinearMapping.identity(target_MD, normalise)
    if config is None:
        return train(None, None), target
    from_method = config.first == "method"
    mapping = train(None, None) if from_method else LinearMapping.identity(source_ND, normalise)

    def on_iteration(iteration: int, pairs: int) -> None:
        notify(f"bootstrapping {iteration}, {pairs:,} pairs")

    return bootstrap(source_ND, target_MD, mapping, train, config, normalise, on_iteration), target


def bootstrap(
    source_ND: Tensor,
    target_MD: Tensor,
    mapping: Mapping,
    train: Train,
    config: BootstrapConfig,
    normalise: Normalise = "unit",
    on_iteration: Callable[[int, int], None] = lambda iteration, pairs: None,
) -> Mapping:
    """Algorithm 1 from a mapping on; `on_iteration` receives the number of pairs of every iteration."""
    from babelray.mapping.criteria import confident_pairs, similarity_for
    from babelray.mapping.linear import prepare

    y_MD, similarity = prepare(target_MD, normalise)[0], similarity_for(normalise)
    for iteration in range(1, config.iterations + 1):
        mapped_ND = mapping.transform(source_ND[: config.words])
        pairs = confident_pairs(mapped_ND, y_MD, config.csls, config.words, config.pairs, similarity, "mutual")
        on_iteration(iteration, len(pairs[0]))
        if config.constraint == "procrustes":
            mapping = procrustes(source_ND, target_MD, pairs, normalise)[0]
        else:
            mapping = train(mapping, Constraint(pairs, config))
    return mapping
