"""Vectors of subwords into vectors of words and sentences. Pure functions of tensors.

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
"""A batch is read in groups of texts of like length: one for so many texts, but no more than that."""


def mean_pool(hidden_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean over the positions where the mask is set; zero where it is set nowhere."""
    weights_BT1 = mask_BT.unsqueeze(-1).to(hidden_BTD.dtype)
    return (hidden_BTD * weights_BT1).sum(1) / weights_BT1.sum(1).clamp(min=1)


def read_by_length(encoder: PreTrainedModel, ids_BT: Tensor, mask_BT: Tensor, groups: int | None = None) -> Tensor:
    """The encoder's vectors (B, T, D) of texts that are padded on the right, those of like length read together.

    In a batch that is read at once the longest text makes all others as long: two thirds of the work are padding.
    Where a text is over, the vectors are zero or anything. `groups` is for workers that have unequally many texts.
    """
    lengths_B, order_B = mask_BT.sum(1).sort(stable=True)
    found = []
    for rows in order_B.split(length_groups(lengths_B.tolist(), groups)):
        longest = int(mask_BT[rows[-1]].sum())
        hidden_btD = encoder(input_ids=ids_BT[rows, :longest], attention_mask=mask_BT[rows, :longest]).last_hidden_state
        found.append(functional.pad(hidden_btD, (0, 0, 0, ids_BT.shape[1] - longest)))
    return torch.cat(found)[order_B.argsort()]


def group_count(texts: int) -> int:
    """In how many groups so many texts are read."""
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
