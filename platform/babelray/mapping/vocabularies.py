"""Two vocabularies mapped into one space by any method: what `babelray align` does with two files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.mapping.checkpoint import Checkpoint, key_of
from babelray.mapping.collapse import Health, detect_collapse
from babelray.mapping.dictionary import positions
from babelray.mapping.method import Notify, fit_mappings

if TYPE_CHECKING:
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.method import MappingMethod
    from babelray.storage import Location
    from babelray.vectors.word_vectors import WordVectors


@dataclass(frozen=True)
class MappedVocabularies:
    """Both vocabularies in one space, and the mapping of each, which applies to new words."""

    source: WordVectors
    target: WordVectors
    mappings: tuple[Mapping, Mapping]
    pairs: int | None
    """Entries of the dictionary that were used; None without a dictionary."""
    health: Health | None
    """Of a mapping without a dictionary, whether it has collapsed."""


def map_vocabularies(
    source: WordVectors,
    target: WordVectors,
    pairs: Sequence[tuple[str, str]] | None,
    method: MappingMethod,
    seed: int = 1,
    notify: Notify = lambda message: None,
    checkpoint_file: Location | None = None,
) -> MappedVocabularies:
    """Map two vocabularies with a dictionary, or without one if the method needs none.

    With a `checkpoint_file` a method that has checkpoints resumes after an interruption, to the same bits.
    """
    positions_P = None if pairs is None else positions(source, target, pairs)
    checkpoint = None
    if checkpoint_file is not None:
        data = (source.matrix, target.matrix, *(positions_P or ()))
        checkpoint = Checkpoint(checkpoint_file, key_of(method.identity(), seed, *data))
    mappings = fit_mappings(source.matrix, target.matrix, positions_P, method, seed, notify, checkpoint)
    left, right = (
        side.with_matrix(mapping.transform(side.matrix))
        for side, mapping in zip((source, target), mappings, strict=True)
    )
    health = None
    if pairs is None:
        notify("comparison with a random mapping")
        health = detect_collapse(left.matrix, right.matrix, seed=seed)
    return MappedVocabularies(left, right, mappings, None if positions_P is None else len(positions_P[0]), health)
