"""Vectors of subwords into vectors of words and sentences. Pure functions of tensors.

Shapes: B batch, T subwords, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from babelray.encoder.layers import longest_input

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.encoder.layers import LayerReader


LENGTHS = 4
"""Groups that a large batch of short texts is cut into."""


def mean_pool(hidden_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean over the positions where the mask is set; zero where it is set nowhere."""
    weights_BT1 = mask_BT.unsqueeze(-1).to(hidden_BTD.dtype)
    return (hidden_BTD * weights_BT1).sum(1) / weights_BT1.sum(1).clamp(min=1)


def pool_by_length(encoder: PreTrainedModel, ids_BT: Tensor, mask_BT: Tensor, pooled_BT: Tensor) -> Tensor:
    """Mean-pooled vectors (B, D) of texts that are padded on the right, those of like length read together.

    Among words that are encoded alone one of many subwords would make all of them as long. The number of groups depends
    on the number of texts alone: workers that share an encoder's weights must run it equally often.
    """
    order_B = mask_BT.sum(1).argsort(stable=True)
    found = []
    for rows in order_B.chunk(LENGTHS if len(order_B) >= 16 * LENGTHS else 1):
        longest = int(mask_BT[rows[-1]].sum())
        ids, mask, pooled = (tensor[rows, :longest] for tensor in (ids_BT, mask_BT, pooled_BT))
        found.append(mean_pool(encoder(input_ids=ids, attention_mask=mask).last_hidden_state, pooled))
    return torch.cat(found)[order_B.argsort()]


def token_budget_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions in batches of similar length, so that a batch holds at most `budget` subwords with its padding.

    >>> list(token_budget_batches([3, 9, 2, 8], budget=18))
    [[1, 3], [0, 2]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    batch: list[int] = []
    for i in order:
        longest = lengths[batch[0]] if batch else lengths[i]
        if batch and (longest * (len(batch) + 1) > budget or longest > lengths[i] + 8 + longest // 4):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


@torch.inference_mode()
def encode_sentences(
    reader: LayerReader, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], batch_tokens: int
) -> Tensor:
    """Mean-pooled vectors (N, D) of sentences at the reader's highest layer; special tokens are not in the mean."""
    longest = longest_input(reader.model, tokenizer)
    encoded = tokenizer(list(texts), truncation=True, max_length=longest, return_special_tokens_mask=True)
    lengths = [len(ids) for ids in encoded["input_ids"]]
    result = torch.empty(len(texts), reader.model.config.hidden_size)
    for batch in token_budget_batches(lengths, batch_tokens):
        padded = tokenizer.pad(
            {key: [encoded[key][i] for i in batch] for key in ("input_ids", "attention_mask", "special_tokens_mask")},
            return_tensors="pt",
        )
        hidden_BTD = reader(padded["input_ids"], padded["attention_mask"])[reader.layers[-1]]
        pooled = padded["attention_mask"].bool() & ~padded["special_tokens_mask"].bool()
        result[batch] = mean_pool(hidden_BTD, pooled)
    return result
