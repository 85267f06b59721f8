"""How surprised a masked language model is by text: its training loss, and the pseudo-perplexity.

    PPPL = exp( −1/N Σ_t log p(x_t | x without x_t) )          over all N subwords of all sentences

Every subword is hidden alone and predicted from all others (Salazar et al., 2020). The fewer subwords a tokenizer
makes, the harder each is to guess: across tokenizers, compare bits per character, −1/C Σ_t log₂ p(x_t | …), with C the
number of characters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from babelray.encoder.pool import token_budget_batches
from babelray.objectives.mlm import mask_tokens, mlm_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.metrics.significance import Doubles


@torch.no_grad()
def mlm_loss(
    model: PreTrainedModel,
    device: torch.device,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    longest: int,
    batch_tokens: int,
) -> float:
    """The mean loss of 15 % of the subwords, hidden together as in training; the same ones every time."""
    generator = np.random.default_rng(0)
    terms = []
    for rows in token_budget_batches([min(len(text), longest) for text in texts], batch_tokens):
        encoded = _encoded(tokenizer, [texts[row] for row in rows], longest)
        maskable_BT = encoded["attention_mask"].bool() & (encoded["special_tokens_mask"] == 0)
        if maskable_BT.any():
            mask, size = tokenizer.mask_token_id, len(tokenizer)
            inputs_BT, labels_BT = mask_tokens(encoded["input_ids"], maskable_BT, mask, size, 0.15, generator)
            tensors = (tensor.to(device) for tensor in (inputs_BT, encoded["attention_mask"], labels_BT))
            terms.append(mlm_terms(model, *tensors).double().cpu())
    return torch.cat(terms).mean().item() if terms else float("nan")


def perplexity_of(counts_N3: Doubles) -> dict[str, float]:
    """The pseudo-perplexity of sentences, and their bits per character, from what `surprises` gives."""
    surprise, subwords, _ = counts_N3.sum(0).tolist()
    return {
        "pseudo_perplexity": math.exp(surprise / max(1, subwords)),
        "bits_per_character": float(bits_per_character(counts_N3.sum(0, keepdims=True))[0]),
    }


def bits_per_character(sums_S3: Doubles) -> Doubles:
    """From sums of what `surprises` gives."""
    return sums_S3[:, 0] / math.log(2) / np.maximum(1, sums_S3[:, 2])


@torch.no_grad()
def surprises(
    model: PreTrainedModel,
    device: torch.device,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    longest: int,
    batch_tokens: int,
) -> Doubles:
    """Of each sentence −Σ_t log p(x_t | …), and the numbers of its subwords and characters (N, 3)."""
    rows = []
    for text in texts:
        encoded, surprise = _encoded(tokenizer, [text], longest), 0.0
        ids_T = encoded["input_ids"][0]
        places_N = (encoded["special_tokens_mask"][0] == 0).nonzero()[:, 0]
        for some in places_N.split(max(1, batch_tokens // len(ids_T))):
            places = torch.arange(len(some))
            inputs_BT = ids_T.repeat(len(some), 1)
            labels_BT = torch.full_like(inputs_BT, -100)
            labels_BT[places, some] = ids_T[some]
            inputs_BT[places, some] = tokenizer.mask_token_id
            tensors = (tensor.to(device) for tensor in (inputs_BT, torch.ones_like(inputs_BT), labels_BT))
            surprise += mlm_terms(model, *tensors).double().sum().item()
        characters = int(encoded["offset_mapping"].max())  # a text that is too long is cut
        rows.append((surprise, len(places_N), characters))
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _encoded(tokenizer: PreTrainedTokenizerBase, texts: list[str], longest: int) -> Any:
    return tokenizer(
        texts,
        padding=True,
        truncation=True,
        max_length=longest,
        return_special_tokens_mask=True,
        return_offsets_mapping=True,
        return_tensors="pt",
    )
