"""What a system makes of an encoder's embeddings and of static vectors: embeddings of the source, and of the target.

Shapes: V pieces of the source, N words of the target and parts of words, T pieces of the target's tokenizer, A anchors,
M words of the hub that the encoder has whole, D width of the encoder, E width of static vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from babelray.stitching.anchors import find_anchors, whole_words
from babelray.stitching.focus import focus
from babelray.stitching.projection import project
from babelray.stitching.relative import relative
from babelray.stitching.tokenizer import signs_of, with_subwords, word_tokenizer
from babelray.stitching.wechsel import wechsel
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

    from babelray.stitching.anchors import Anchors, Pair
    from babelray.stitching.config import AnchorConfig, SystemConfig


@dataclass(frozen=True)
class Source:
    """The encoder's embeddings before any fine-tuning, its tokenizer, and static vectors of its language."""

    tokenizer: PreTrainedTokenizerBase
    embeddings_VD: Tensor
    hub: WordVectors

    def pieces(self, words: Sequence[str]) -> dict[str, int]:
        """The words that the encoder has whole, with the numbers of their pieces; none whose embedding is zero."""
        found = whole_words(self.tokenizer, dict.fromkeys(words))
        return {word: number for word, number in found.items() if self.embeddings_VD[number].any()}

    @cached_property
    def special(self) -> list[int]:
        """The numbers of special tokens, which belong to no language."""
        return sorted(self.tokenizer.all_special_ids)


@dataclass(frozen=True)
class Target:
    """A language of static vectors, with the tokenizer that an encoder reads it by."""

    words: WordVectors
    source: Source
    dictionary: Sequence[Pair]

    @classmethod
    def of(cls, vectors: WordVectors, source: Source, dictionary: Sequence[Pair]) -> Target:
        """With all words that are no special tokens of the encoder, such as fastText's `</s>`."""
        special = set(source.tokenizer.all_special_tokens)
        rows = [row for row, word in enumerate(vectors.words) if word not in special]
        words, counts = [vectors.words[row] for row in rows], [vectors.counts[row] for row in rows]
        return cls(WordVectors(words, vectors.matrix[rows], counts), source, dictionary)

    @cached_property
    def known(self) -> WordVectors:
        """The words, and parts of words."""
        return with_subwords(self.words)

    @cached_property
    def signs(self) -> dict[str, int]:
        return signs_of(self.source.tokenizer, self.known.position)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        parts = self.known.words[len(self.words) :]
        return word_tokenizer(self.words.words, [*parts, *self.signs], self.source.tokenizer)

    def anchors(self, config: AnchorConfig, seed: int) -> Anchors:
        pieces = self.source.pieces([meaning for _, meaning in self.dictionary])
        return find_anchors(self.dictionary, pieces, self.words, self.source.hub, config, seed)

    def matrix(self, embeddings_ND: Tensor, source_VD: Tensor) -> Tensor:
        """Embeddings (T, D) in the order of the tokenizer; special tokens and signs are those of the source."""
        numbers = self.tokenizer.convert_tokens_to_ids
        found_TD = source_VD.new_empty(len(self.tokenizer), source_VD.shape[1])
        found_TD[torch.tensor(numbers(self.known.words))] = embeddings_ND.to(source_VD)
        names = self.source.tokenizer.convert_ids_to_tokens(self.source.special)
        shared = dict(zip(names, self.source.special, strict=True)) | self.signs
        found_TD[torch.tensor(numbers(list(shared)))] = source_VD[torch.tensor(list(shared.values()))]
        return found_TD


def source_embeddings(system: SystemConfig, target: Target, anchors: Anchors) -> Tensor:
    """F^s (V, D): every piece of the source as its nearest anchors make it; special tokens stay as they are."""
    source_VD = target.source.embeddings_VD
    own_AD = source_VD[anchors.pieces_A]
    found_VD = relative(source_VD, own_AD, own_AD, system.nearest, system.weighting, system.sharpness)
    found_VD[target.source.special] = source_VD[target.source.special]
    return found_VD


def target_embeddings(system: SystemConfig, target: Target, seed: int) -> Tensor:
    """F^t (N, D): the words of the target and their parts, in the space of the encoder's embeddings."""
    source, words_NE = target.source, target.known.matrix
    if system.method == "focus":
        shared = source.pieces(target.words.words)
        rows_S = torch.tensor([target.words.position[word] for word in shared], dtype=torch.long)
        shared_SD = source.embeddings_VD[torch.tensor(list(shared.values()), dtype=torch.long)]
        return focus(words_NE, rows_S, shared_SD, system.nearest, system.sharpness)
    anchors = target.anchors(system.anchors, seed)
    anchors_AE, embeddings_AD = words_NE[anchors.rows_A], source.embeddings_VD[anchors.pieces_A]
    if system.method == "least-squares":
        return project(words_NE, anchors_AE, embeddings_AD)
    if system.method == "wechsel":
        return _by_rotation(system, target, anchors)
    return relative(words_NE, anchors_AE, embeddings_AD, system.nearest, system.weighting, system.sharpness)


def _by_rotation(system: SystemConfig, target: Target, anchors: Anchors) -> Tensor:
    """WECHSEL's, with the anchors as its dictionary."""
    source, position = target.source, target.source.hub.position
    both = [
        (row, position[meaning])
        for row, (_, meaning) in zip(anchors.rows_A.tolist(), anchors.pairs, strict=True)
        if meaning in position
    ]
    whole = source.pieces(source.hub.words)
    rows_M = torch.tensor([position[word] for word in whole], dtype=torch.long)
    place = {row: number for number, row in enumerate(rows_M.tolist())}
    dictionary_2P = torch.tensor([(row, place[own]) for row, own in both if own in place], dtype=torch.long)
    dictionary_2P = dictionary_2P.reshape(-1, 2).T
    embeddings_MD = source.embeddings_VD[torch.tensor(list(whole.values()), dtype=torch.long)]
    return wechsel(
        target.known.matrix,
        source.hub.matrix[rows_M],
        embeddings_MD,
        (dictionary_2P[0], dictionary_2P[1]),
        system.nearest,
        system.sharpness,
    )
