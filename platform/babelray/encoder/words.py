"""The subwords of each word, by character offsets in the unchanged text.

Giving a tokenizer the words one by one would put a space before each, which is wrong for languages written
without spaces; offsets are right for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def token_spans(text: str, tokens: Sequence[str]) -> np.ndarray:
    """Start and end (N, 2) of each token in its text.

    >>> token_spans("Hi you.", ["Hi", "you", "."]).tolist()
    [[0, 2], [3, 6], [6, 7]]
    """
    spans = np.empty((len(tokens), 2), dtype=np.int64)
    position = 0
    for i, token in enumerate(tokens):
        start = text.index(token, position)
        position = start + len(token)
        spans[i] = start, position
    return spans


def overlaps(words_W2: np.ndarray, subwords_S2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (word, subword) whose spans share a character, as two arrays of positions.

    A subword that covers two words belongs to both; one that covers none (a space, a special token with an
    empty span) belongs to none.

    >>> word, subword = overlaps(np.array([[0, 2], [3, 6]]), np.array([[0, 0], [0, 1], [1, 2], [2, 6]]))
    >>> list(zip(word.tolist(), subword.tolist()))
    [(0, 1), (0, 2), (1, 3)]
    """
    if not len(words_W2):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    first = np.searchsorted(words_W2[:, 1], subwords_S2[:, 0], side="right")
    last = np.searchsorted(words_W2[:, 0], subwords_S2[:, 1], side="left")
    counts = np.where(subwords_S2[:, 1] > subwords_S2[:, 0], np.maximum(last - first, 0), 0)
    subword = np.repeat(np.arange(len(subwords_S2)), counts)
    offset = np.arange(len(subword)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(first, counts) + offset, subword


def word_pools(
    texts: Sequence[str],
    tokens: Sequence[Sequence[str]],
    offsets_BT2: np.ndarray,
    subwords_BT: np.ndarray,
    pooling: Literal["last", "mean"],
) -> tuple[Tensor, Tensor]:
    """Weights (B, W, T) that pool vectors of subwords into vectors of words, and the mask (B, W) of words.

    The vector of a word is that of its last subword, or the mean over its subwords. The mask excludes words beyond the
    maximum length, and words without a subword.
    """
    import torch

    pairs = []
    for text, words, offsets_T2, real_T in zip(texts, tokens, offsets_BT2, subwords_BT, strict=True):
        spans_T2 = np.where(real_T[:, None], offsets_T2, 0)
        pairs.append(overlaps(token_spans(text, words), spans_T2))
    widest = max((len(words) for words in tokens), default=0)
    weights_BWT = np.zeros((len(texts), max(1, widest), offsets_BT2.shape[1]), dtype=np.float32)
    for row, (word, subword) in enumerate(pairs):
        if pooling == "last":
            last = np.append(word[1:] != word[:-1], True)[: len(word)]
            word, subword = word[last], subword[last]
        weights_BWT[row, word, subword] = 1
    counts_BW1 = weights_BWT.sum(2, keepdims=True)
    return torch.from_numpy(weights_BWT / np.maximum(counts_BW1, 1)), torch.from_numpy(counts_BW1[..., 0] > 0)
