"""GBDD: what tells the languages apart is a direction, and is subtracted (Zhao et al., 2020; baseline in 2022, 4.1).

The differences of translation pairs, d_i = x_i − y_i, should be nothing but have a direction in common: v, the first
right singular vector of the matrix of all d_i (after Dev and Phillips, 2019). Both languages lose it:

    x ↦ x − ⟨x, v⟩ v

The paper writes cos(x, v) for the product: the same for vectors of length 1, which ours are unless `normalise` says
otherwise. They are not centred first, since most of v is the difference of the two means. Nothing is turned: it is
for vectors of one encoder.

Shapes: N and M words, P pairs, D width, K directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.mapping.linear import Dictionary, LinearMapping

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.methods import Normalise


def bias_directions(x_PD: Tensor, y_PD: Tensor, count: int = 1) -> Tensor:
    """The directions (K, D), of length 1, in which pairs differ most; computed in double precision."""
    difference_PD = (x_PD - y_PD).double()
    _, vectors_DD = torch.linalg.eigh(difference_PD.T @ difference_PD)
    return vectors_DD[:, -count:].T.flip(0).to(x_PD.dtype)


def gbdd(
    source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary, directions: int = 1, how: Normalise = "unit"
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, which are the same: a projection, fitted on pairs of positions."""
    mean_D = torch.zeros_like(source_ND[0])
    as_they_are = LinearMapping(mean_D, torch.eye(source_ND.shape[1], dtype=source_ND.dtype), how == "unit")
    x_PD, y_PD = as_they_are.transform(source_ND[dictionary[0]]), as_they_are.transform(target_MD[dictionary[1]])
    v_KD = bias_directions(x_PD, y_PD, directions)
    mapping = as_they_are.then(as_they_are.matrix_DE - v_KD.T @ v_KD)
    return mapping, mapping
