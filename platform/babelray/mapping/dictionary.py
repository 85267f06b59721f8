"""Dictionaries of words: as positions in two vocabularies, and as induced from two vocabularies in one space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.config import Config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from babelray.mapping.linear import Dictionary
    from babelray.mapping.method import MappingMethod
    from babelray.vectors.word_vectors import WordVectors

Direction = Literal["forward", "backward", "union", "mutual"]
"""Each source word's best translation; each target word's; both, one after the other; those that are the best of
each other."""


class InductionConfig(Config):
    """The dictionary that is induced from two sets of vectors in one space, by CSLS."""

    direction: Direction = "mutual"
    """`mutual`: words that are each other's best translations; `forward`: each word's best; `backward`: each hub
    word's; or the `union` of both."""
    words: int = Field(20_000, ge=2)
    """Frequent words of each side that are compared."""
    csls: int = Field(10, ge=0)
    min_confidence: float | None = None
    """The least CSLS of a pair; above 0 two words are nearer to each other than to their neighbourhoods."""


Words = list[tuple[str, str]]
"""Pairs of words that translate each other."""


def positions(source: WordVectors, target: WordVectors, pairs: Sequence[tuple[str, str]]) -> Dictionary:
    """Pairs of words as pairs of positions; those with a word that is not there are left out."""
    import torch

    present = [
        (source.position[a], target.position[b]) for a, b in pairs if a in source.position and b in target.position
    ]
    rows, columns = zip(*present, strict=True) if present else ((), ())
    return torch.tensor(rows, dtype=torch.long), torch.tensor(columns, dtype=torch.long)


def induced_dictionary(source: WordVectors, target: WordVectors, config: InductionConfig) -> tuple[Words, list[float]]:
    """The translations induced from two vocabularies in one space, the most confident first, and their confidence."""
    from torch.nn import functional

    from babelray.mapping.induction import induce

    x_ND, z_MD = (functional.normalize(side.matrix[: config.words]) for side in (source, target))
    induced = induce(x_ND, z_MD, config.csls, config.direction)
    rows = zip(induced.source_P.tolist(), induced.target_P.tolist(), induced.confidence_P.tolist(), strict=True)
    confidence = {(source.words[i], target.words[j]): value for i, j, value in rows}
    least = float("-inf") if config.min_confidence is None else config.min_confidence
    confident = (pair for pair in confidence if confidence[pair] >= least)
    pairs = sorted(confident, key=lambda pair: (-confidence[pair], pair))
    return pairs, [confidence[pair] for pair in pairs]


def unsupervised_dictionary(
    source: WordVectors, target: WordVectors, method: MappingMethod, induction: InductionConfig, seed: int
) -> Words:
    """The translations induced from two vocabularies that a method has mapped without any dictionary."""
    from babelray.mapping.method import fit_mappings

    left, right = fit_mappings(source.matrix, target.matrix, None, method, seed)
    mapped = source.with_matrix(left.transform(source.matrix)), target.with_matrix(right.transform(target.matrix))
    return induced_dictionary(*mapped, induction)[0]
