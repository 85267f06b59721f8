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
    hidden, order_B = [], []
    for rows, hidden_btD in _groups(encoder, ids_BT, mask_BT, groups):
        hidden.append(functional.pad(hidden_btD, (0, 0, 0, ids_BT.shape[1] - hidden_btD.shape[1])))
        order_B.append(rows)
    return torch.cat(hidden)[torch.cat(order_B).argsort()]


def mean_by_length(
    encoder: PreTrainedModel, ids_BT: Tensor, mask_BT: Tensor, pooled_BT: Tensor, groups: int | None = None
) -> Tensor:
    """The means (B, D) over the positions of texts where `pooled_BT` is set, read as `read_by_length` does.

    An encoder without layers reads no padding at all.
    """
    if encoder.config.num_hidden_layers == 0:
        return _static_means(encoder, ids_BT, pooled_BT.bool())
    means, order_B = [], []
    for rows, hidden_btD in _groups(encoder, ids_BT, mask_BT, groups):
        means.append(mean_pool(hidden_btD, pooled_BT[rows, : hidden_btD.shape[1]]))
        order_B.append(rows)
    return torch.cat(means)[torch.cat(order_B).argsort()]


def _groups(
    encoder: PreTrainedModel, ids_BT: Tensor, mask_BT: Tensor, groups: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows of each group, and their vectors (b, t, D) up to the longest of the group.

    In training all embeddings are looked up at once, since each look-up has a gradient as large as the vocabulary.
    """
    lengths_B, order_B = mask_BT.sum(1).sort(stable=True)
    rows_of_groups = order_B.split(length_groups(lengths_B.tolist(), groups))
    if not torch.is_grad_enabled():
        for rows in rows_of_groups:
            longest = int(mask_BT[rows[-1]].sum())
            yield rows, _read(encoder, mask_BT[rows, :longest], input_ids=ids_BT[rows, :longest])
        return
    sorted_BT = mask_BT[order_B].bool()
    embeddings_ND = encoder.get_input_embeddings()(ids_BT[order_B][sorted_BT])
    counts = [int(mask_BT[rows].sum()) for rows in rows_of_groups]
    for rows, embeddings_nD in zip(rows_of_groups, embeddings_ND.split(counts), strict=True):
        mask_bt = mask_BT[rows, : int(mask_BT[rows[-1]].sum())]
        positions_bt = (mask_bt.flatten().cumsum(0).view_as(mask_bt) - 1).clamp(min=0)
        yield rows, _read(encoder, mask_bt, inputs_embeds=functional.embedding(positions_bt, embeddings_nD))


def _read(encoder: PreTrainedModel, mask_bt: Tensor, **texts: Tensor) -> Tensor:
    return encoder(attention_mask=mask_bt, **texts).last_hidden_state


def _static_means(encoder: PreTrainedModel, ids_BT: Tensor, pooled_BT: Tensor) -> Tensor:
    """The means (B, D) of texts by an encoder without layers, which reads each subword as a text of its own."""
    first = encoder.config.pad_token_id + 1  # RoBERTa's first position
    positions_BT = first + torch.arange(ids_BT.shape[1], device=ids_BT.device).expand_as(ids_BT)
    ids_N1, positions_N1 = ids_BT[pooled_BT].unsqueeze(1), positions_BT[pooled_BT].unsqueeze(1)
    hidden_ND = encoder(input_ids=ids_N1, position_ids=positions_N1).last_hidden_state[:, 0]
    ends_B = pooled_BT.sum(1).cumsum(0)
    starts_B = functional.pad(ends_B[:-1], (1, 0))
    rows_N = torch.arange(len(hidden_ND), device=ids_BT.device)
    return functional.embedding_bag(rows_N, hidden_ND, starts_B, mode="mean")


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
