"""Dictionaries of words: as positions in two vocabularies, and as two vocabularies in one space make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from babelray.mapping.induction import induce
from babelray.mapping.vecmap import vecmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from babelray.mapping.config import InductionConfig, VecMapConfig
    from babelray.mapping.linear import Dictionary
    from babelray.vectors.word_vectors import WordVectors

Words = list[tuple[str, str]]
"""Pairs of words that translate each other."""


def positions(source: WordVectors, target: WordVectors, pairs: Sequence[tuple[str, str]]) -> Dictionary:
    """Pairs of words as pairs of positions; those with a word that is not there are left out."""
    found = [
        (source.position[a], target.position[b]) for a, b in pairs if a in source.position and b in target.position
    ]
    rows, columns = zip(*found, strict=True) if found else ((), ())
    return torch.tensor(rows, dtype=torch.long), torch.tensor(columns, dtype=torch.long)


def translations(source: WordVectors, target: WordVectors, config: InductionConfig) -> tuple[Words, list[float]]:
    """The translations that two vocabularies in one space make, the most confident first, and their confidence."""
    x_ND, z_MD = (functional.normalize(side.matrix[: config.words]) for side in (source, target))
    found = induce(x_ND, z_MD, config.csls, config.direction)
    rows = zip(found.source_P.tolist(), found.target_P.tolist(), found.confidence_P.tolist(), strict=True)
    confidence = {(source.words[i], target.words[j]): value for i, j, value in rows}
    least = float("-inf") if config.min_confidence is None else config.min_confidence
    kept = sorted(
        (pair for pair in confidence if confidence[pair] >= least), key=lambda pair: (-confidence[pair], pair)
    )
    return kept, [confidence[pair] for pair in kept]


def without_supervision(
    source: WordVectors, target: WordVectors, vectors: VecMapConfig, induction: InductionConfig, seed: int
) -> Words:
    """The translations that two vocabularies make once VecMap has mapped them without any dictionary."""
    how = vectors.model_copy(update={"self_learning": True})
    left, right = vecmap(source.matrix, target.matrix, None, how, seed)
    mapped = source.with_matrix(left.transform(source.matrix)), target.with_matrix(right.transform(target.matrix))
    return translations(*mapped, induction)[0]
