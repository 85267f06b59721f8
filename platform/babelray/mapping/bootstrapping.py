"""Bootstrapping: what an unsupervised mapping finds teaches it (Zhao and Eger, 2022, section 3.2, Algorithm 1).

Two languages that are equal in distribution need not be equal: Y uniform on (−1, 1) and Ỹ = −Y. By their Prop. 1 they
are if (i) Y = UỸ with an invertible U ≥ 0, or (ii) every component of Ỹ correlates with that of Y by 1. So induce pairs
by CSLS, train again with a constraint on these that pulls toward one of the conditions, and so on, n times. (i) is
weaker than they say: if U swaps two components that are distributed alike, it holds, and Y and Ỹ differ; what eq. 4
asks for holds for every rotation. (ii) has no such gap, and did better in their experiments.

    graph structure      g = ‖Ỹ Ỹᵀ − Y Yᵀ‖²                                                  (eq. 4, for i)
    cross-correlation    g = ‖diag(ỸᵀY) / √(diag(ỸᵀỸ) diag(YᵀY)) − 1‖²,  Ỹ and Y centred      (eq. 5, for ii)
    procrustes           no game any more: the best rotation of X on the pairs

Written from the paper. Where it is silent, and where we differ:
- Eq. 5 has no root in its denominator. Without it that is no correlation, as the text says that it is.
- Both are of pairs that are drawn anew for every step. Eq. 4 is a mean over the cells, divided by D, the variance of
  the product of two independent vectors whose entries have variance 1, as those that the networks see: its slopes are
  then no steeper than those of eq. 5. A rotation, as MUSE's, leaves every graph as it is: there it only keeps W one.
- By Algorithm 1 the pairs of the first iteration are those that the identity makes; by section 2 the method itself
  makes them. `first` chooses; the default is the method, trained without any constraint.
- "+ Procrustes" is not defined for a flow. Its figures in table 1 are those of a rotation, so that is what it is here.

Shapes: N and M words, P pairs, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from babelray.mapping.criteria import nearness, translations
from babelray.mapping.linear import Dictionary, prepared
from babelray.mapping.procrustes import procrustes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from babelray.mapping.config import BootstrapConfig
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.methods import Normalise


def graph_structure(mapped_PD: Tensor, target_PD: Tensor) -> Tensor:
    """Eq. 4, per cell and dimension: how much the products of rows differ between the sides."""
    difference_PP = mapped_PD @ mapped_PD.T - target_PD @ target_PD.T
    return difference_PP.square().mean() / mapped_PD.shape[1]


def cross_correlation(mapped_PD: Tensor, target_PD: Tensor) -> Tensor:
    """Eq. 5: how far the correlations of corresponding dimensions are from 1."""
    return (correlation(mapped_PD, target_PD) - 1).square().sum()


def correlation(mapped_PD: Tensor, target_PD: Tensor) -> Tensor:
    """Pearson's correlation (D) of each dimension of one side with the same of the other; 0 where one is constant."""
    x_PD, y_PD = mapped_PD - mapped_PD.mean(0), target_PD - target_PD.mean(0)
    return torch.cosine_similarity(x_PD, y_PD, dim=0)


@dataclass(frozen=True)
class Constraint:
    """g on some of the pairs; called with a function that maps vectors, and with the vectors of both sides."""

    pairs: Dictionary
    config: BootstrapConfig

    def __call__(
        self, function: Callable[[Tensor], Tensor], x_ND: Tensor, y_MD: Tensor, generator: torch.Generator
    ) -> Tensor:
        rows_P, columns_P = self.pairs
        drawn_P = torch.randint(len(rows_P), (min(self.config.batch, len(rows_P)),), generator=generator)
        g = graph_structure if self.config.constraint == "graph" else cross_correlation
        return self.config.weight * g(function(x_ND[rows_P[drawn_P]]), y_MD[columns_P[drawn_P]])


def bootstrap(
    source_ND: Tensor,
    target_MD: Tensor,
    mapping: Mapping,
    train: Callable[[Mapping, Constraint], Mapping],
    config: BootstrapConfig,
    how: Normalise = "unit",
    advance: Callable[[int, int], None] = lambda iteration, pairs: None,
) -> Mapping:
    """Algorithm 1 from a mapping on; `train` goes on from a mapping, under a constraint.

    `advance` is told the number of pairs of every iteration.
    """
    seen_MD = prepared(target_MD, how)[0]
    for iteration in range(1, config.iterations + 1):
        mapped_ND = mapping.transform(source_ND[: config.words])
        pairs = translations(mapped_ND, seen_MD, config.csls, config.words, config.pairs, nearness(how), "mutual")
        advance(iteration, len(pairs[0]))
        if config.constraint == "procrustes":
            mapping = procrustes(source_ND, target_MD, pairs, how)[0]
        else:
            mapping = train(mapping, Constraint(pairs, config))
    return mapping
