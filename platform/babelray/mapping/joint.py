"""Joint refinement: all languages rotated towards their common mean, not each towards the hub alone.

Generalised Procrustes analysis (Gower, 1975; for embeddings of many languages Kementchedjhieva et al., 2018): with
X_l the vectors of language l's words, row by row for the concepts they mean, minimise over rotations R_l

    Σ_l Σ_c ‖ X_l[c] R_l − M[c] ‖²,   M[c] the mean of X_l[c] R_l over the languages that have a word for concept c

by alternating between the means and each rotation (Procrustes). Neither step can raise the sum. A concept is a word of
the hub, which takes part like every other language; in the end everything is rotated back so that the hub stays where
it was. A hub whose vectors are noisy, or a concept that it splits differently, then weighs no more than any other
language.

Shapes: P pairs of a language, C concepts, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def generalised_procrustes(
    vectors: Sequence[Tensor], concepts: Sequence[Tensor], rounds: int = 10
) -> tuple[list[Tensor], list[float]]:
    """A rotation (D, D) for each language, the first of which is the hub and stays; and the loss of each round.

    `vectors[l]` (P, D) are those of language l's words, in one space already; `concepts[l]` (P) says what they mean.
    """
    width = vectors[0].shape[1]
    size = 1 + max(int(numbers_P.max()) for numbers_P in concepts if len(numbers_P))
    rotations = [torch.eye(width, dtype=torch.double) for _ in vectors]
    weights = [1 / torch.bincount(numbers_P, minlength=size)[numbers_P].double() for numbers_P in concepts]
    losses = []
    for _ in range(rounds):
        rotated = [x_PD.double() @ rotation_DD for x_PD, rotation_DD in zip(vectors, rotations, strict=True)]
        mean_CD = torch.zeros(size, width, dtype=torch.double)
        languages_C = torch.zeros(size, dtype=torch.double)
        for x_PD, numbers_P, weight_P in zip(rotated, concepts, weights, strict=True):
            mean_CD.index_add_(0, numbers_P, x_PD * weight_P[:, None])  # a language with two words counts once
            languages_C.index_add_(0, numbers_P, weight_P)
        mean_CD /= languages_C.clamp(min=1)[:, None]
        losses.append(
            sum(
                ((x_PD - mean_CD[numbers_P]).square().sum(1) * weight_P).sum().item()
                for x_PD, numbers_P, weight_P in zip(rotated, concepts, weights, strict=True)
            )
        )
        rotations = [
            rotation(x_PD.double() * weight_P[:, None], mean_CD[numbers_P])
            for x_PD, numbers_P, weight_P in zip(vectors, concepts, weights, strict=True)
        ]
    back_DD = rotations[0].T
    return [(rotation_DD @ back_DD).to(vectors[0].dtype) for rotation_DD in rotations], losses
