"""Pooling of subword vectors, and batching by length. Pure functions of tensors.

Shapes: B batch, T subwords, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


GROUP, MOST_GROUPS = 16, 8
"""The encoder reads a batch in groups of texts of similar length: a group per 16 texts, at most 8 groups."""


def mean_pool(hidden_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean over the positions where the mask is set; zero where it is set nowhere."""
    weights_BT1 = mask_BT.unsqueeze(-1).to(hidden_BTD.dtype)
    return (hidden_BTD * weights_BT1).sum(1) / weights_BT1.sum(1).clamp(min=1)


def read_by_length(encoder: PreTrainedModel, ids_BT: Tensor, mask_BT: Tensor, groups: int | None = None) -> Tensor:
    """The encoder's vectors (B, T, D) of texts that are padded on the right, read in groups of similar length.

    In one batch, padding to the longest text would be two thirds of the work. At padding, vectors are undefined.
    `groups` is for workers with different numbers of texts.
    """
    lengths_B, order_B = mask_BT.sum(1).sort(stable=True)
    hidden = []
    for rows in order_B.split(length_groups(lengths_B.tolist(), groups)):
        longest = int(mask_BT[rows[-1]].sum())
        hidden_btD = encoder(input_ids=ids_BT[rows, :longest], attention_mask=mask_BT[rows, :longest]).last_hidden_state
        hidden.append(functional.pad(hidden_btD, (0, 0, 0, ids_BT.shape[1] - longest)))
    return torch.cat(hidden)[order_B.argsort()]


def group_count(texts: int) -> int:
    """The number of groups in which a number of texts is read."""
    return min(max(texts // GROUP, 1), MOST_GROUPS)


def length_groups(lengths: Sequence[int], groups: int | None = None) -> list[int]:
    """How many of the texts, which are sorted by length, are read together: groups of about as many subwords each.

    The number of groups depends on that of texts alone, if it is not given: workers that share an encoder's weights
    must run it equally often.

    >>> length_groups([3] * 30 + [45, 45])
    [30, 2]
    """
    count = groups or group_count(len(lengths))
    sums = np.cumsum(lengths)
    cuts = np.arange(1, count)
    wanted = np.searchsorted(sums, sums[-1] * cuts / count, side="right") - cuts
    ends = np.maximum.accumulate(wanted.clip(0, len(lengths) - count)) + cuts
    return np.diff([0, *ends, len(lengths)]).tolist()


def token_budget_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions in batches of similar length, so that a batch holds at most `budget` subwords with its padding.

    >>> list(token_budget_batches([3, 9, 2, 8], budget=18))
    [[1, 3], [0, 2]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    batch: list[int] = []
    for i in order:
        longest = lengths[batch[0]] if batch else lengths[i]
        if batch and (longest * (len(batch) + 1) > budget or longest > lengths[i] + 4 + longest // 8):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
