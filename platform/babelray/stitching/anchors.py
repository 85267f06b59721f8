"""Parallel anchors: translation pairs that an encoder and static vectors both have (Ye et al., 2024, section 4).

A pair can be an anchor if its word in the hub is one piece of the encoder's tokenizer, and the other word has a static
vector. Dictionaries are mostly lower-cased: a word that the vectors have only in another case is taken in that.
Vectors of zeros have no direction, and words that have one are no anchors.

Shapes: A anchors, E width of static vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from babelray.errors import DataError
from babelray.mapping.linear import check_pairs, unit_centred
from babelray.mapping.procrustes import rotation
from babelray.vectors.retrieval import mean_nearest

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from babelray.stitching.config import AnchorConfig, Policy
    from babelray.vectors.word_vectors import WordVectors

CSLS = 10
Pair = tuple[str, str]
"""A word of the target language, and its translation in the hub."""


class Anchors(NamedTuple):
    """The words, the positions of the target's in its vectors (A), and the pieces of the encoder (A)."""

    pairs: list[Pair]
    rows_A: Tensor
    pieces_A: Tensor


def whole_words(tokenizer: PreTrainedTokenizerBase, words: Iterable[str]) -> dict[str, int]:
    """The words that the tokenizer has as one piece, with its number; read as they stand within a sentence."""
    words = list(words)
    read = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"] if words else []
    return {
        word: ids[0]
        for word, ids in zip(words, read, strict=True)
        if len(ids) == 1 and ids[0] not in tokenizer.all_special_ids
    }


def find_anchors(
    dictionary: Sequence[Pair],
    pieces: Mapping[str, int],
    target: WordVectors,
    hub: WordVectors,
    config: AnchorConfig,
    seed: int = 1,
) -> Anchors:
    """The anchors of a dictionary; `pieces` are the hub's words that the encoder has whole.

    An error if fewer than two are left: all words would become the same.
    """
    present = _present(dictionary, pieces, target)
    if not present:
        problem = f"none of {len(dictionary):,} translation pairs has a word that the encoder has as one piece, and one"
        raise DataError(f"{problem} with a vector", "Give another dictionary, or vectors of more words.")
    stop_words = set(hub.words[: config.skip_frequent])
    pairs = [pair for pair in _unambiguous(present, config.policy, hub) if pair[1] not in stop_words]
    if config.min_confidence is not None:
        pairs = _confident(pairs, target, hub, config.min_confidence)[: config.count]
    elif config.count is not None and config.count < len(pairs):
        drawn = np.random.default_rng(seed).choice(len(pairs), config.count, replace=False)
        pairs = [pairs[i] for i in sorted(drawn)]
    if len(pairs) < 2:
        problem = f"{len(pairs)} anchor{'' if len(pairs) == 1 else 's'}, of {len(present):,} pairs that could be"
        raise DataError(f"{problem}: all words would become the same", "Give more pairs, or ask less of `anchors`.")
    rows, numbers = zip(*((target.position[word], pieces[meaning]) for word, meaning in pairs), strict=True)
    return Anchors(pairs, torch.tensor(rows), torch.tensor(numbers))


def _present(dictionary: Sequence[Pair], pieces: Mapping[str, int], target: WordVectors) -> list[Pair]:
    """Pairs of words that are both there, spelt as they are there; each once."""
    spelt = {word.lower(): word for word in reversed(target.words)}  # the most frequent spelling stays
    directed = target.matrix.any(1).tolist()
    found = [
        (word if word in target.position else spelt.get(word.lower()), meaning)
        for word, meaning in dictionary
        if meaning in pieces
    ]
    kept = ((word, meaning) for word, meaning in found if word is not None and directed[target.position[word]])
    return list(dict.fromkeys(kept))


def _unambiguous(pairs: Sequence[Pair], policy: Policy, hub: WordVectors) -> list[Pair]:
    """One translation of each word, by the policy."""
    if policy == "frequent":
        pairs = sorted(pairs, key=lambda pair: hub.position.get(pair[1], len(hub)))
    first: dict[str, str] = {}
    for word, meaning in pairs:
        first.setdefault(word, meaning)
    chosen = list(first.items())
    if policy != "mutual":
        return chosen
    back: dict[str, str] = {}
    for word, meaning in pairs:
        back.setdefault(meaning, word)
    return [(word, meaning) for word, meaning in chosen if back[meaning] == word]


def _confident(pairs: Sequence[Pair], target: WordVectors, hub: WordVectors, least: float) -> list[Pair]:
    """Pairs whose words are near to each other, the most confident first."""
    both = [pair for pair in pairs if pair[1] in hub.position]
    rows_A = torch.tensor([target.position[word] for word, _ in both], dtype=torch.long)
    hub_A = torch.tensor([hub.position[meaning] for _, meaning in both], dtype=torch.long)
    check_pairs(target.matrix, hub.matrix, (rows_A, hub_A), same_width=True)
    values = confidence(unit_centred(target.matrix)[0][rows_A], unit_centred(hub.matrix)[0][hub_A]).tolist()
    ranked = sorted(zip(values, both, strict=True), key=lambda found: -found[0])
    return [pair for value, pair in ranked if value >= least]


def confidence(x_AE: Tensor, z_AE: Tensor) -> Tensor:
    """CSLS (A) of pairs of vectors of length 1, once the first are rotated onto the second.

        CSLS(x R, z) = 2 cos(x R, z) − r(x R) − r(z)

    where r is the mean cosine of a vector to its nearest among all pairs' vectors of the other side. It is the same
    whichever side asks: a pair that either word has better partners than gets little of it.
    """
    x_AE = x_AE @ rotation(x_AE, z_AE)
    return 2 * (x_AE * z_AE).sum(1) - mean_nearest(x_AE, z_AE, CSLS) - mean_nearest(z_AE, x_AE, CSLS)
