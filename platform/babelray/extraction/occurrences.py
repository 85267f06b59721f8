"""Sentences in batches for the encoder, with the words that occur in them.

Words are located by their characters (`encoder/words.py`). A sentence that is longer than the encoder allows is split;
a word that the split cuts in two is left out. Both are counted.

Shapes: B rows of a batch, T subwords of a row, W occurrences of words, P (occurrence, subword) pairs, D width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from babelray.encoder.pool import token_budget_batches
from babelray.encoder.words import overlaps, token_spans

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass
class Sentence:
    """A text and its tokens."""

    text: str
    tokens: Sequence[str]


@dataclass
class Batch:
    """Rows for the encoder, and which of their subwords make which occurrence of which word."""

    ids_BT: Tensor
    mask_BT: Tensor
    inner_BT: Tensor
    """Marks the real subwords, without special ones."""
    row_W: Tensor
    word_W: Tensor
    """The position of the occurrence's word in the vocabulary."""
    number_W: Tensor
    """The occurrence's number in the block, in the order of the text; it does not depend on the batches."""
    occurrence_P: Tensor
    position_P: Tensor
    """The subword's position among the B × T of the batch."""

    def to(self, device: torch.device | str) -> Batch:
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))

    def pool(self, hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """The sum (W, D) of each occurrence's subwords, and their number (W)."""
        flat = hidden_BTD.flatten(0, 1)
        sums_WD = flat.new_zeros(len(self.word_W), flat.shape[1], dtype=torch.float32)
        sums_WD.index_add_(0, self.occurrence_P, flat[self.position_P].float())
        return sums_WD, torch.bincount(self.occurrence_P, minlength=len(self.word_W))


def make_batches(
    sentences: Sequence[Sentence],
    tokenizer: PreTrainedTokenizerBase,
    position: Mapping[str, int],
    longest: int,
    batch_tokens: int,
    counts: Counter[str],
) -> Iterator[Batch]:
    """The sentences in batches of similar length, each with the occurrences of the words in the vocabulary."""
    rows = _rows(sentences, tokenizer, longest, counts)
    words = _Words(sentences, position)
    for chosen in token_budget_batches([len(row.ids) for row in rows], batch_tokens):
        yield _batch([rows[i] for i in chosen], words, tokenizer, counts)


@dataclass
class _Row:
    """One input of the encoder: a sentence, or a part of a long one."""

    sentence: int
    is_part: bool
    ids: list[int]
    spans: np.ndarray
    special: list[int]


def _rows(
    sentences: Sequence[Sentence], tokenizer: PreTrainedTokenizerBase, longest: int, counts: Counter[str]
) -> list[_Row]:
    if not sentences:
        return []
    encoded = tokenizer(
        [sentence.text for sentence in sentences],
        truncation=True,
        max_length=longest,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
    )
    origin = encoded["overflow_to_sample_mapping"]
    parts = Counter(origin)
    counts["sentences"] += len(sentences)
    counts["split sentences"] += sum(n > 1 for n in parts.values())
    columns = (encoded["input_ids"], encoded["offset_mapping"], encoded["special_tokens_mask"])
    return [
        _Row(sentence, parts[sentence] > 1, ids, np.array(spans, dtype=np.int64).reshape(-1, 2), special)
        for sentence, ids, spans, special in zip(origin, *columns, strict=True)
    ]


class _Words:
    """The tokens of the sentences that are in the vocabulary, with the characters they cover."""

    def __init__(self, sentences: Sequence[Sentence], position: Mapping[str, int]) -> None:
        self.lengths = [len(sentence.text) for sentence in sentences]
        self.spans: list[np.ndarray] = []
        self.words: list[np.ndarray] = []
        for sentence in sentences:
            words = np.array([position.get(token.lower(), -1) for token in sentence.tokens], dtype=np.int64)
            in_vocabulary = words >= 0
            self.spans.append(token_spans(sentence.text, sentence.tokens)[in_vocabulary])
            self.words.append(words[in_vocabulary])
        self.first = np.cumsum([0, *map(len, self.words)])


def _batch(rows: Sequence[_Row], words: _Words, tokenizer: PreTrainedTokenizerBase, counts: Counter[str]) -> Batch:
    """All rows at once: their characters are numbered consecutively over all rows."""
    ids_BT, mask_BT, inner_BT = _pad_rows(rows, tokenizer.pad_token_id or 0)
    ids = ids_BT[mask_BT]
    base = np.cumsum([0, *(words.lengths[row.sentence] + 2 for row in rows)])[:-1]
    subwords = np.concatenate([row.spans + start for row, start in zip(rows, base, strict=True)])
    spans = np.concatenate([words.spans[row.sentence] + start for row, start in zip(rows, base, strict=True)])
    word, subword = overlaps(spans, subwords)
    touched, readable = np.zeros((2, len(spans)), dtype=bool)
    touched[word] = True
    readable[word[~np.isin(ids[subword], blank_ids(tokenizer))]] = True
    sizes = [len(words.words[row.sentence]) for row in rows]
    here = touched | np.repeat([not row.is_part for row in rows], sizes)  # a part need not touch all words
    counts["words without known subwords"] += int((here & ~readable).sum())
    if any(row.is_part for row in rows):
        cut = np.concatenate([_crossing_words(row, words.spans[row.sentence]) for row in rows])
        counts["words cut in two"] += int((readable & cut).sum())
        readable &= ~cut
    counts["words"] += int(readable.sum())

    used = readable[word]
    arrays = {
        "ids_BT": ids_BT,
        "mask_BT": mask_BT,
        "inner_BT": inner_BT,
        "row_W": np.repeat(np.arange(len(rows)), sizes)[readable],
        "word_W": np.concatenate([words.words[row.sentence] for row in rows])[readable],
        "number_W": np.concatenate(
            [words.first[row.sentence] + np.arange(n) for row, n in zip(rows, sizes, strict=True)]
        )[readable],
        "occurrence_P": (np.cumsum(readable) - 1)[word[used]],
        "position_P": np.flatnonzero(mask_BT)[subword[used]],
    }
    return Batch(**{name: torch.from_numpy(array) for name, array in arrays.items()})


def _pad_rows(rows: Sequence[_Row], padding: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ids of all rows, and masks of all subwords and of those that are not special."""
    widths = np.array([len(row.ids) for row in rows])
    mask_BT = np.arange(widths.max()) < widths[:, None]
    ids_BT = np.full(mask_BT.shape, padding)
    ids_BT[mask_BT] = np.concatenate([row.ids for row in rows])
    inner_BT = np.zeros_like(mask_BT)
    inner_BT[mask_BT] = ~np.concatenate([row.special for row in rows]).astype(bool)
    return ids_BT, mask_BT, inner_BT


def blank_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Subwords without content: the unknown one, and a bare mark of a word's beginning."""
    ids = {tokenizer.unk_token_id, *tokenizer.convert_tokens_to_ids(["▁", "Ġ"])}
    return sorted(ids - {None})


def _crossing_words(row: _Row, spans: np.ndarray) -> np.ndarray:
    """Marks the words that cross an end of a part of a sentence; none for a complete sentence."""
    inside = row.spans[~np.array(row.special, dtype=bool)]
    if not row.is_part or not len(inside):
        return np.zeros(len(spans), dtype=bool)
    start, end = inside[0, 0], inside[-1, 1]
    return ((spans[:, 0] < start) & (spans[:, 1] > start)) | ((spans[:, 0] < end) & (spans[:, 1] > end))
