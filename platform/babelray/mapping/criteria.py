"""How good is a mapping? Criteria that need no translations, only the vectors of both languages.

Zhao and Eger (2022, section 4.2) induce the most confident translations by CSLS, (x_i, y_i), and score these:

    semantic      1/P Σ_i cos(x_i, y_i)                           as MUSE does (Conneau et al., 2018)
    structural    −Σ_j (log σ_j(X) − log σ_j(Y))²                 σ_j: singular values, in their order

The second is the singular value gap of Dubossarsky et al. (2020), with its sign changed: of both, larger is better.
They are functions of two matrices alone, so that any training can use them: rows are words, or occurrences of words.

Where lengths count, as in a world of two dimensions, near is what is at a small distance: CSLS is then of −‖x − y‖²,
and the semantic criterion 1 − Σ_i ‖x_i − y_i‖² / Σ_i (‖x_i‖² + ‖y_i‖²), the mean cosine for vectors of length 1.

Shapes: N and M words, P pairs, D width, E = D + 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from babelray.mapping.induction import induce

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.dictionary import Direction
    from babelray.mapping.linear import Dictionary
    from babelray.mapping.method import Normalise, Similarity

FLOOR = 1e-6
"""Singular values below this share of the largest are replaced by it: their logarithms are noise."""


def similarity_for(normalise: Normalise) -> Similarity:
    """Lengths count unless all are 1."""
    return "cosine" if normalise == "unit" else "distance"


def comparable(x_ND: Tensor, y_MD: Tensor, similarity: Similarity = "cosine") -> tuple[Tensor, Tensor]:
    """Vectors whose products are the similarities: cosines, or −‖x − y‖² = (√2 x, −‖x‖², 1) · (√2 y, 1, −‖y‖²)."""
    if similarity == "cosine":
        return functional.normalize(x_ND), functional.normalize(y_MD)
    x_N1, y_M1 = (side.square().sum(1, keepdim=True) for side in (x_ND, y_MD))
    x_NE = torch.cat([math.sqrt(2) * x_ND, -x_N1, torch.ones_like(x_N1)], 1)
    y_ME = torch.cat([math.sqrt(2) * y_MD, torch.ones_like(y_M1), -y_M1], 1)
    return x_NE, y_ME


def confident_pairs(
    mapped_ND: Tensor,
    target_MD: Tensor,
    csls: int = 10,
    words: int = 10_000,
    pairs: int = 30_000,
    similarity: Similarity = "cosine",
    direction: Direction = "forward",
) -> Dictionary:
    """The most confident translations by CSLS among the first words of each side, best first."""
    sides = comparable(mapped_ND[:words], target_MD[:words], similarity)
    induced = induce(*sides, csls=csls, direction=direction)
    best_P = induced.confidence_P.argsort(descending=True, stable=True)[:pairs]
    return induced.source_P[best_P], induced.target_P[best_P]


def semantic(
    mapped_ND: Tensor,
    target_MD: Tensor,
    csls: int = 10,
    words: int = 10_000,
    pairs: int = 30_000,
    similarity: Similarity = "cosine",
) -> float:
    """How near the most confident translations are."""
    rows_P, columns_P = confident_pairs(mapped_ND, target_MD, csls, words, pairs, similarity)
    x_PD, y_PD = mapped_ND[rows_P], target_MD[columns_P]
    if similarity == "cosine":
        return functional.cosine_similarity(x_PD, y_PD).mean().item()
    return 1 - ((x_PD - y_PD).square().sum() / (x_PD.square().sum() + y_PD.square().sum())).item()


def structural(
    mapped_ND: Tensor,
    target_MD: Tensor,
    csls: int = 10,
    words: int = 10_000,
    pairs: int = 30_000,
    similarity: Similarity = "cosine",
) -> float:
    """How alike the spectra of the most confident translations are; 0 is best."""
    rows_P, columns_P = confident_pairs(mapped_ND, target_MD, csls, words, pairs, similarity)
    x_D, y_D = (log_singular_values(side) for side in (mapped_ND[rows_P], target_MD[columns_P]))
    return -(x_D - y_D).square().sum().item()


def log_singular_values(x_PD: Tensor) -> Tensor:
    """Those of a matrix, largest first, in double precision."""
    values_D = torch.linalg.svdvals(x_PD.double())
    return values_D.clamp(min=FLOOR * values_D[0]).log()


def precision(x_PD: Tensor, y_PD: Tensor, csls: int = 10, similarity: Similarity = "cosine") -> float:
    """Validation data as a criterion: the share of pairs whose words find each other among all of the pairs."""
    nearest_P = induce(*comparable(x_PD, y_PD, similarity), csls=csls, direction="forward").target_P
    return (y_PD[nearest_P] == y_PD).all(1).float().mean().item()
