"""GBDD: the languages differ by a direction, which is subtracted (Zhao et al., 2020; Zhao and Eger, 2022).

The differences of translation pairs, d_i = x_i − y_i, should have nothing in common but a direction: v, the first right
singular vector of the matrix of all d_i (after Dev and Phillips, 2019). Both languages lose it:

    x ↦ x − ⟨x, v⟩ v

The paper writes cos(x, v) for the product: the same for vectors of length 1, as ours are unless `normalise` says
otherwise. They are not centred first, since most of v is the difference of the two means. Nothing is rotated: the
method is for vectors of one encoder.

Shapes: N and M words, P pairs, D width, K directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.mapping.method import MAPPING_METHODS, MappingMethod, Normalise, Notify

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.linear import Dictionary, LinearMapping


@MAPPING_METHODS.register
class GbddConfig(MappingMethod):
    """The directions in which the languages differ, removed from both (Zhao et al., 2020)."""

    changes_hub = True

    method: Literal["gbdd"] = "gbdd"
    directions: int = Field(1, ge=1)
    """Directions that are subtracted."""

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[LinearMapping, LinearMapping]:
        assert dictionary is not None  # `fit_mappings` checks it
        return gbdd(source_ND, target_MD, dictionary, self.directions, self.normalise)


def bias_directions(x_PD: Tensor, y_PD: Tensor, count: int = 1) -> Tensor:
    """The directions (K, D), of length 1, in which pairs differ most; computed in double precision."""
    import torch

    difference_PD = (x_PD - y_PD).double()
    _, vectors_DD = torch.linalg.eigh(difference_PD.T @ difference_PD)
    return vectors_DD[:, -count:].T.flip(0).to(x_PD.dtype)


def gbdd(
    source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary, directions: int = 1, normalise: Normalise = "unit"
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides, which are the same: a projection, fitted on pairs of positions."""
    import torch

    from babelray.mapping.linear import LinearMapping

    mean_D = torch.zeros_like(source_ND[0])
    identity = LinearMapping(mean_D, torch.eye(source_ND.shape[1], dtype=source_ND.dtype), normalise == "unit")
    x_PD, y_PD = identity.transform(source_ND[dictionary[0]]), identity.transform(target_MD[dictionary[1]])
    v_KD = bias_directions(x_PD, y_PD, directions)
    mapping = identity.then(identity.matrix_DE - v_KD.T @ v_KD)
    return mapping, mapping
