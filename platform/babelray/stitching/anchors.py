"""Parallel anchors: translation pairs that an encoder and static vectors both have (Ye et al., 2024, section 4).

A pair can be an anchor if its word in the hub is one piece of the encoder's tokenizer, and the other word has a static
vector. Dictionaries are mostly lower-cased: a word that has a vector only in another case is spelt in that case. Words
whose vector is zero have no direction and are not used.

Shapes: A anchors, E width of static vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from babelray.config import Config
from babelray.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from babelray.vectors.word_vectors import WordVectors

CSLS = 10
Pair = tuple[str, str]
"""A word of the target language, and its translation in the hub."""
Policy = Literal["first", "frequent", "mutual"]


class AnchorConfig(Config):
    """Which translation pairs are anchors, of those whose words the encoder and the static vectors have."""

    policy: Policy = "first"
    """Which of a word's translations is taken: the first in the dictionary, the one that is most frequent in the hub,
    or (`mutual`) only pairs whose words are each other's first."""
    skip_frequent: int = Field(0, ge=0)
    """The number of most frequent words of the hub that are no anchors: stop words, whose translations vary."""
    min_confidence: float | None = None
    """Least CSLS of a pair once the static vectors of both languages are rotated onto each other; 0 keeps pairs that
    are nearer to each other than to their neighbourhoods. Null: no pair is dropped."""
    count: int | None = Field(None, ge=2)
    """Most anchors: the most confident if there is a `min_confidence`, else a random sample; null for all."""


class Anchors(NamedTuple):
    """The words, the positions of the target's in its vectors (A), and the pieces of the encoder (A)."""

    pairs: list[Pair]
    rows_A: Tensor
    pieces_A: Tensor


def single_piece_words(tokenizer: PreTrainedTokenizerBase, words: Iterable[str]) -> dict[str, int]:
    """The words that the tokenizer keeps as one piece within a sentence, with its id."""
    words = list(words)
    encoded = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"] if words else []
    return {
        word: ids[0]
        for word, ids in zip(words, encoded, strict=True)
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
    """The anchors of a dictionary; `pieces` are the hub's words that are one piece of the encoder's vocabulary.

    An error if there are fewer than two: all words would get the same embedding.
    """
    import torch

    candidates = _with_vectors(dictionary, pieces, target)
    if not candidates:
        problem = f"none of {len(dictionary):,} translation pairs has a word that the encoder has as one piece, and one"
        raise DataError(f"{problem} with a vector", "Give another dictionary, or vectors of more words.")
    pairs = _choose(candidates, target, hub, config, seed)
    if len(pairs) < 2:
        problem = f"{len(pairs)} anchor{'' if len(pairs) == 1 else 's'}, of {len(candidates):,} pairs that could be"
        raise DataError(f"{problem}: all words would become the same", "Give more pairs, or ask less of `anchors`.")
    rows, ids = zip(*((target.position[word], pieces[translation]) for word, translation in pairs), strict=True)
    return Anchors(pairs, torch.tensor(rows), torch.tensor(ids))


def _with_vectors(dictionary: Sequence[Pair], pieces: Mapping[str, int], target: WordVectors) -> list[Pair]:
    """Pairs of which both sides have a vector, spelt as in the vectors; each once."""
    spellings = {word.lower(): word for word in reversed(target.words)}  # the most frequent spelling wins
    nonzero = target.matrix.any(1).tolist()
    spelt = (
        (word if word in target.position else spellings.get(word.lower()), translation)
        for word, translation in dictionary
        if translation in pieces
    )
    pairs = ((word, translation) for word, translation in spelt if word is not None and nonzero[target.position[word]])
    return list(dict.fromkeys(pairs))


def _choose(
    candidates: Sequence[Pair], target: WordVectors, hub: WordVectors, config: AnchorConfig, seed: int
) -> list[Pair]:
    import numpy as np

    stop_words = set(hub.words[: config.skip_frequent])
    pairs = [pair for pair in _unambiguous(candidates, config.policy, hub) if pair[1] not in stop_words]
    if config.min_confidence is not None:
        return _confident(pairs, target, hub, config.min_confidence)[: config.count]
    if config.count is None or config.count >= len(pairs):
        return pairs
    sample = np.random.default_rng(seed).choice(len(pairs), config.count, replace=False)
    return [pairs[i] for i in sorted(sample)]


def _unambiguous(pairs: Sequence[Pair], policy: Policy, hub: WordVectors) -> list[Pair]:
    """One translation of each word, by the policy."""
    if policy == "frequent":
        pairs = sorted(pairs, key=lambda pair: hub.position.get(pair[1], len(hub)))
    translations: dict[str, str] = {}
    for word, translation in pairs:
        translations.setdefault(word, translation)
    if policy != "mutual":
        return list(translations.items())
    words: dict[str, str] = {}
    for word, translation in pairs:
        words.setdefault(translation, word)
    return [(word, translation) for word, translation in translations.items() if words[translation] == word]


def _confident(pairs: Sequence[Pair], target: WordVectors, hub: WordVectors, least: float) -> list[Pair]:
    """Pairs whose words are near to each other, the most confident first."""
    import torch

    from babelray.mapping.linear import check_pairs, unit_centred

    pairs = [pair for pair in pairs if pair[1] in hub.position]
    rows_A = torch.tensor([target.position[word] for word, _ in pairs], dtype=torch.long)
    hub_A = torch.tensor([hub.position[translation] for _, translation in pairs], dtype=torch.long)
    check_pairs(target.matrix, hub.matrix, (rows_A, hub_A), same_width=True)
    values = confidence(unit_centred(target.matrix)[0][rows_A], unit_centred(hub.matrix)[0][hub_A]).tolist()
    ranked = sorted(zip(values, pairs, strict=True), key=lambda entry: -entry[0])
    return [pair for value, pair in ranked if value >= least]


def confidence(x_AE: Tensor, z_AE: Tensor) -> Tensor:
    """CSLS (A) of pairs of vectors of length 1, once the first are rotated onto the second.

        CSLS(x R, z) = 2 cos(x R, z) − r(x R) − r(z)

    where r is the mean cosine of a vector to its nearest neighbours among the other side's vectors of all pairs. It is
    symmetric. It is low for a pair of which either word has better partners.
    """
    from babelray.mapping.procrustes import rotation
    from babelray.vectors.retrieval import mean_nearest

    x_AE = x_AE @ rotation(x_AE, z_AE)
    return 2 * (x_AE * z_AE).sum(1) - mean_nearest(x_AE, z_AE, CSLS) - mean_nearest(z_AE, x_AE, CSLS)
