"""Vectors of subwords into vectors of words and sentences. Pure functions of tensors.

Shapes: B batch, T subwords, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


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


@torch.no_grad()
def encode_sentences(
    read: Callable[[Tensor, Tensor], Tensor],
    device: torch.device,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    longest: int,
    batch_tokens: int,
) -> Tensor:
    """Mean-pooled vectors (N, D) of sentences, in main memory; special tokens are not in the mean.

    `read` gives the vectors (B, T, D) of subwords and their mask (B, T), on the device, at the layer that is wanted.
    """
    encoded = tokenizer(list(texts), truncation=True, max_length=longest, return_special_tokens_mask=True)
    batches = list(token_budget_batches([len(ids) for ids in encoded["input_ids"]], batch_tokens))
    found = []
    for batch in batches:
        padded = tokenizer.pad(
            {key: [encoded[key][i] for i in batch] for key in ("input_ids", "attention_mask", "special_tokens_mask")},
            return_tensors="pt",
        ).to(device)
        pooled_BT = padded["attention_mask"].bool() & ~padded["special_tokens_mask"].bool()
        found.append(mean_pool(read(padded["input_ids"], padded["attention_mask"]).float(), pooled_BT).cpu())
    order = torch.tensor([row for batch in batches for row in batch])
    return torch.cat(found)[order.argsort()]
