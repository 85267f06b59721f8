"""Static vectors of words alone (Vulić et al., 2022, section 2.1).

The word goes through the encoder as if it were a sentence; its vector is the mean over all subwords, special ones
included. No corpus is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from babelray.encoder.pool import mean_pool, token_budget_batches
from babelray.extraction.occurrences import blank_ids

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from babelray.encoder.layers import LayerReader


def isolated(
    reader: LayerReader,
    tokenizer: PreTrainedTokenizerBase,
    words: Sequence[str],
    longest: int,
    batch_tokens: int,
    counts: Counter[str],
) -> dict[str, Tensor]:
    """`words`: which of them the tokenizer knows; `layer.N`: their vectors (U, D)."""
    encoded = tokenizer(list(words), truncation=True, max_length=longest, return_special_tokens_mask=True)
    ids = [np.array(row) for row in encoded["input_ids"]]
    inner = [row[np.array(special) == 0] for row, special in zip(ids, encoded["special_tokens_mask"], strict=True)]
    blank = blank_ids(tokenizer)
    known = [i for i, row in enumerate(inner) if not np.isin(row, blank).all()]
    counts["words"] += len(known)
    counts["words without known subwords"] += len(words) - len(known)
    found: dict[int, Tensor] = {}
    for chosen in token_budget_batches([len(ids[i]) for i in known], batch_tokens):
        rows = [torch.from_numpy(ids[known[i]]) for i in chosen]
        ids_BT = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id or 0)
        mask_BT = torch.arange(ids_BT.shape[1]) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
        mask_BT = mask_BT.to(reader.device)
        for layer, hidden_BTD in reader(ids_BT.to(reader.device), mask_BT).items():
            vectors_BD = mean_pool(hidden_BTD.float(), mask_BT).cpu()
            found.setdefault(layer, torch.empty(len(known), vectors_BD.shape[1]))[chosen] = vectors_BD
    return {"words": torch.tensor(known, dtype=torch.long)} | {f"layer.{n}": matrix for n, matrix in found.items()}
