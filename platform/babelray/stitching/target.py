"""The source (an encoder with static vectors of its language) and a target language that is stitched to it.

Shapes: V pieces of the source vocabulary, N words of the target and parts of words, or texts, T pieces of the target's
tokenizer, D width of the encoder, E width of static vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from babelray.errors import DataError
from babelray.stitching.anchors import find_anchors, single_piece_words
from babelray.stitching.tokenizer import signs_of, with_subwords, word_tokenizer
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

    from babelray.stitching.anchors import AnchorConfig, Anchors, Pair


@dataclass(frozen=True)
class Source:
    """The encoder's embeddings before any fine-tuning, its tokenizer, and static vectors of its language."""

    tokenizer: PreTrainedTokenizerBase
    embeddings_VD: Tensor
    hub: WordVectors

    def pieces(self, words: Sequence[str]) -> dict[str, int]:
        """The words that are one piece of the encoder's vocabulary, with its id; none whose embedding is zero."""
        pieces = single_piece_words(self.tokenizer, dict.fromkeys(words))
        return {word: number for word, number in pieces.items() if self.embeddings_VD[number].any()}

    @cached_property
    def special(self) -> list[int]:
        """The ids of special tokens, which belong to no language."""
        return sorted(self.tokenizer.all_special_ids)


@dataclass(frozen=True)
class Target:
    """A language with static vectors, and the tokenizer by which the stitched encoder reads it."""

    words: WordVectors
    source: Source
    dictionary: Sequence[Pair]

    @classmethod
    def from_vectors(cls, vectors: WordVectors, source: Source, dictionary: Sequence[Pair]) -> Target:
        """All words but those that are special tokens of the encoder, such as fastText's `</s>`."""
        special = set(source.tokenizer.all_special_tokens)
        rows = [row for row, word in enumerate(vectors.words) if word not in special]
        words, counts = [vectors.words[row] for row in rows], [vectors.counts[row] for row in rows]
        return cls(WordVectors(words, vectors.matrix[rows], counts), source, dictionary)

    @cached_property
    def vectors(self) -> WordVectors:
        """Of the words and of parts of words."""
        return with_subwords(self.words)

    @cached_property
    def signs(self) -> dict[str, int]:
        """Signs and digits whose embeddings are taken from the source, with their ids there."""
        return signs_of(self.source.tokenizer, self.vectors.position)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        parts = self.vectors.words[len(self.words) :]
        return word_tokenizer(self.words.words, [*parts, *self.signs], self.source.tokenizer)

    def find_anchors(self, config: AnchorConfig, seed: int) -> Anchors:
        pieces = self.source.pieces([translation for _, translation in self.dictionary])
        return find_anchors(self.dictionary, pieces, self.words, self.source.hub, config, seed)

    def coverage(self, texts: Sequence[str]) -> float:
        """The share of the pieces of texts, signs aside, that are words with a vector of their own."""
        encoded = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        pieces = [piece for ids in encoded for piece in self.tokenizer.convert_ids_to_tokens(ids)]
        words = sum(piece in self.words.position for piece in pieces)
        if not words:
            problem = f"none of the {len(texts):,} texts of the benchmark has a word with a static vector"
            raise DataError(problem, "Give vectors of this language, under extract.path.")
        return words / sum(piece not in self.signs for piece in pieces)

    def average(self, texts: Sequence[str]) -> Tensor:
        """The mean static vector (N, E) of each text; zero for a text without any word or part that has one."""
        means_NE = torch.zeros(len(texts), self.vectors.dimension)
        for row, ids in enumerate(self.tokenizer(list(texts))["input_ids"]):
            pieces = self.tokenizer.convert_ids_to_tokens(ids)
            rows = [self.vectors.position[piece] for piece in pieces if piece in self.vectors.position]
            if rows:
                means_NE[row] = self.vectors.matrix[rows].mean(0)
        return means_NE

    def matrix(self, embeddings_ND: Tensor, source_VD: Tensor) -> Tensor:
        """Embeddings (T, D) in the order of the tokenizer; special tokens and signs are those of the source."""
        ids = self.tokenizer.convert_tokens_to_ids
        matrix_TD = source_VD.new_empty(len(self.tokenizer), source_VD.shape[1])
        matrix_TD[torch.tensor(ids(self.vectors.words))] = embeddings_ND.to(source_VD)
        special = self.source.tokenizer.convert_ids_to_tokens(self.source.special)
        shared = dict(zip(special, self.source.special, strict=True)) | self.signs
        matrix_TD[torch.tensor(ids(list(shared)))] = source_VD[torch.tensor(list(shared.values()))]
        return matrix_TD
