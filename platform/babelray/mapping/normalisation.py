"""Vector space normalisation: every language with mean 0 and variance 1 in each dimension (Zhao et al., 2021).

    x ↦ (x − μ_X) / σ_X

Where the vectors of one encoder differ by language only in where they lie and how far they spread, that is all that it
takes (Libovický et al., 2020, only centre). It needs no translations. A dimension without variance becomes 0.

Shapes: N and M words, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.errors import DataError
from babelray.mapping.linear import LinearMapping

if TYPE_CHECKING:
    from torch import Tensor


def standardisation(vectors_ND: Tensor) -> LinearMapping:
    """The mapping of one language."""
    deviation_D, mean_D = torch.std_mean(vectors_ND, 0, correction=0)
    if not deviation_D.any():
        raise DataError("all vectors of a language are the same", "Make the vectors again.")
    inverse_D = torch.where(deviation_D > 0, 1 / deviation_D, 0)
    return LinearMapping(mean_D, torch.diag(inverse_D), unit=False)


def normalisation(source_ND: Tensor, target_MD: Tensor) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides; neither knows of the other."""
    return standardisation(source_ND), standardisation(target_MD)
