"""Static vectors by aggregation (Bommasani et al., 2020): a word's vector is the mean over its occurrences.

    v(w) = 1/|O(w)| Σ_{o ∈ O(w)} 1/|o| Σ_{t ∈ o} h_t^(layer)

where o runs over the occurrences of w in the corpus and t over the subwords of o.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from babelray.encoder.pool import hidden_states, token_budget_batches
from babelray.encoder.words import overlaps, token_spans
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@torch.inference_mode()
def aggregate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    tokens: Sequence[Sequence[str]],
    vocabulary: dict[str, int],
    layer: int,
    batch_tokens: int,
    advance: Callable[[int], None] = lambda sentences: None,
) -> WordVectors:
    """Vectors of the words of the vocabulary that occur in the sentences; those that never do are left out.

    `advance` is called with the number of sentences done so far.
    """
    device = next(model.parameters()).device
    position = {word: i for i, word in enumerate(vocabulary)}
    sums_VD = torch.zeros(len(position), model.config.hidden_size, dtype=torch.float64)
    counts_V = torch.zeros(len(position), dtype=torch.long)
    longest = model.config.max_position_embeddings - 2
    encoded = tokenizer(list(texts), truncation=True, max_length=longest, return_offsets_mapping=True)
    done = 0
    for batch in token_budget_batches([len(ids) for ids in encoded["input_ids"]], batch_tokens):
        padded = tokenizer.pad({"input_ids": [encoded["input_ids"][i] for i in batch]}, return_tensors="pt").to(device)
        hidden_BTD = hidden_states(model, padded["input_ids"], padded["attention_mask"], layer)
        for row, i in enumerate(batch):
            words_ND, found = word_vectors(hidden_BTD[row], texts[i], tokens[i], encoded["offset_mapping"][i])
            ids = [position.get(tokens[i][w].lower(), -1) for w in found.tolist()]
            known = torch.tensor([n for n, v in enumerate(ids) if v >= 0], dtype=torch.long)
            index = torch.tensor([v for v in ids if v >= 0], dtype=torch.long)
            sums_VD.index_add_(0, index, words_ND.cpu()[known].double())
            counts_V.index_add_(0, index, torch.ones_like(index))
        done += len(batch)
        advance(done)
    kept = counts_V.nonzero().flatten()
    matrix = (sums_VD[kept] / counts_V[kept].unsqueeze(1)).float()
    words = list(vocabulary)
    return WordVectors([words[i] for i in kept.tolist()], matrix, counts_V[kept].tolist())


def word_vectors(
    hidden_TD: Tensor, text: str, tokens: Sequence[str], offsets: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """The mean-pooled subwords of each word of a sentence, and the words' positions; cut-off words are left out."""
    import numpy as np

    word, subword = (torch.from_numpy(a) for a in overlaps(token_spans(text, tokens), np.array(offsets)))
    found, index = word.unique(return_inverse=True)
    sums_ND = torch.zeros(len(found), hidden_TD.shape[1], device=hidden_TD.device)
    sums_ND.index_add_(0, index.to(hidden_TD.device), hidden_TD[subword.to(hidden_TD.device)].float())
    counts_N = torch.bincount(index, minlength=len(found)).to(hidden_TD.device)
    return sums_ND / counts_N.unsqueeze(1), found
