"""Vectors of sentences, of words in sentences, and of subwords, by an encoder; batched by length.

Shapes: N texts, B batch, T subwords, W words, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from babelray.encoder.layers import LayerReader, longest_input
from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer
from babelray.encoder.pool import mean_pool, token_budget_batches
from babelray.encoder.words import word_pools

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.storage import AnyPath

Pooling = Literal["mean", "last", "first", "all"]


class TextEncoder:
    """The vectors of texts at one layer of an encoder.

    >>> encoder = TextEncoder.from_pretrained("babelray-mini")                           # doctest: +SKIP
    >>> encoder.encode(["A dog barks.", "Ein Hund bellt."]).shape          # doctest: +SKIP
    torch.Size([2, 256])
    """

    def __init__(
        self,
        read: Callable[[Tensor, Tensor], Tensor],
        device: torch.device,
        tokenizer: PreTrainedTokenizerBase,
        longest: int,
        batch_tokens: int = 8192,
    ) -> None:
        """`read` returns the vectors (B, T, D) of subwords (B, T) with their mask (B, T), all on the device."""
        self.read = read
        self.device = device
        self.tokenizer = tokenizer
        self.longest = longest
        self.batch_tokens = batch_tokens

    @classmethod
    def from_model(
        cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, layer: int = -1, batch_tokens: int = 8192
    ) -> TextEncoder:
        """From a loaded model; layers above the one that is read are removed from it."""
        reader = LayerReader(model, [resolve_layer(layer, model.config.num_hidden_layers)])
        return cls(reader.highest, reader.device, tokenizer, longest_input(model, tokenizer), batch_tokens)

    @classmethod
    def from_pretrained(
        cls, path: AnyPath, layer: int = -1, batch_tokens: int = 8192, device: str = "cpu"
    ) -> TextEncoder:
        """The encoder in a folder, or of a name."""
        return cls.from_model(load_encoder(path, device), load_tokenizer(path, masks=False), layer, batch_tokens)

    def for_language(self, language: str, paired_with: str) -> TextEncoder:
        """The encoder for texts of a language that are compared with texts of another: itself, unless languages are
        mapped (see `models/mapped.py`).
        """
        return self

    def encode(self, texts: Sequence[str], pooling: Pooling = "mean") -> Tensor:
        """A vector (N, D) for each text, in main memory: the mean over its subwords without special ones, or over all,
        or the vector of its first token, which is special, or of its last subword.
        """
        vectors, order = [], []
        for rows, hidden_BTD, encoded in self._batches(texts, spans=False):
            real_BT = _real(encoded).to(hidden_BTD.device)
            if pooling in ("mean", "all"):
                counted_BT = real_BT if pooling == "mean" else encoded["attention_mask"].bool().to(hidden_BTD.device)
                pooled_BD = mean_pool(hidden_BTD.float(), counted_BT)
            elif pooling == "first":
                pooled_BD = hidden_BTD[:, 0].float()
            else:
                last_B = (real_BT * torch.arange(real_BT.shape[1], device=real_BT.device)).argmax(1)
                pooled_BD = hidden_BTD[torch.arange(len(rows)), last_B].float()
            vectors.append(pooled_BD.cpu())
            order += rows
        return torch.cat(vectors)[torch.tensor(order).argsort()]

    def words(
        self, texts: Sequence[str], tokens: Sequence[Sequence[str]], pooling: Literal["mean", "last"] = "mean"
    ) -> list[tuple[list[int], Tensor]]:
        """For each text the positions in `tokens` of the words that have a vector, and their vectors (W, D).

        `tokens` are the words of each text, in order. A word beyond the maximum length, or without a subword, has no
        vector.
        """
        vectors: dict[int, tuple[list[int], Tensor]] = {}
        for rows, hidden_BTD, encoded in self._batches(texts):
            weights_BWT, present_BW = word_pools(
                [texts[row] for row in rows],
                [tokens[row] for row in rows],
                encoded["offset_mapping"].numpy(),
                _real(encoded).numpy(),
                pooling,
            )
            vectors_BWD = (weights_BWT.to(hidden_BTD) @ hidden_BTD).float().cpu()
            for row, vectors_WD, present_W in zip(rows, vectors_BWD, present_BW, strict=True):
                vectors[row] = present_W.nonzero()[:, 0].tolist(), vectors_WD[present_W]
        return [vectors[row] for row in range(len(texts))]

    def subwords(self, texts: Sequence[str]) -> list[tuple[Tensor, Tensor]]:
        """For each text the character spans (T, 2) of its subwords, without special ones, and their vectors (T, D)."""
        vectors: dict[int, tuple[Tensor, Tensor]] = {}
        for rows, hidden_BTD, encoded in self._batches(texts):
            spans_BT2 = encoded["offset_mapping"]
            for row, spans_T2, vectors_TD, real_T in zip(
                rows, spans_BT2, hidden_BTD.float().cpu(), _real(encoded), strict=True
            ):
                vectors[row] = spans_T2[real_T], vectors_TD[real_T]
        return [vectors[row] for row in range(len(texts))]

    @torch.no_grad()
    def _batches(self, texts: Sequence[str], spans: bool = True) -> Iterator[tuple[list[int], Tensor, Any]]:
        """Batches of texts of similar length: their rows, the layer's vectors (B, T, D), and the tokenizer's output.

        With `spans`, the output has the character span of each subword.
        """
        names = ["input_ids", "attention_mask", "special_tokens_mask", *(["offset_mapping"] if spans else [])]
        encoded = self.tokenizer(
            list(texts),
            truncation=True,
            max_length=self.longest,
            return_special_tokens_mask=True,
            return_offsets_mapping=spans,
        )
        for rows in token_budget_batches([len(ids) for ids in encoded["input_ids"]], self.batch_tokens):
            padded = _padded({name: [encoded[name][row] for row in rows] for name in names}, self.tokenizer)
            hidden_BTD = self.read(padded["input_ids"].to(self.device), padded["attention_mask"].to(self.device))
            yield rows, hidden_BTD, padded


def _real(encoded: Any) -> Tensor:
    """The mask (B, T) of subwords that are neither special nor padding."""
    return encoded["attention_mask"].bool() & (encoded["special_tokens_mask"] == 0)


def _padded(encoded: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
    """Lists of unequal length as tensors, padded on the right."""
    longest = max(len(ids) for ids in encoded["input_ids"])
    fill: dict[str, Any] = {
        "input_ids": tokenizer.pad_token_id or 0,
        "attention_mask": 0,
        "special_tokens_mask": 1,
        "offset_mapping": (0, 0),
    }
    return {  # through numpy, which converts lists several times as fast
        name: torch.from_numpy(np.array([[*row, *[fill[name]] * (longest - len(row))] for row in rows]))
        for name, rows in encoded.items()
    }
