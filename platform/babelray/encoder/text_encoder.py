"""An encoder that is asked for vectors: of sentences, of words in sentences, of subwords; batched by length.

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

Pooling = Literal["mean", "last", "first", "all"]


class TextEncoder:
    """What an encoder makes of texts, at one of its layers.

    >>> encoder = TextEncoder.open("babelray-mini")                           # doctest: +SKIP
    >>> encoder.sentences(["A dog barks.", "Ein Hund bellt."]).shape          # doctest: +SKIP
    torch.Size([2, 192])
    """

    def __init__(
        self,
        read: Callable[[Tensor, Tensor], Tensor],
        device: torch.device,
        tokenizer: PreTrainedTokenizerBase,
        longest: int,
        batch_tokens: int = 8192,
    ) -> None:
        """`read` gives the vectors (B, T, D) of subwords and their mask (B, T), on the device."""
        self.read = read
        self.device = device
        self.tokenizer = tokenizer
        self.longest = longest
        self.batch_tokens = batch_tokens

    @classmethod
    def of(
        cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, layer: int = -1, batch_tokens: int = 8192
    ) -> TextEncoder:
        """An encoder that is loaded; layers above the one that is read are cut off it."""
        reader = LayerReader(model, [resolve_layer(layer, model.config.num_hidden_layers)])
        return cls(reader.highest, reader.device, tokenizer, longest_input(model, tokenizer), batch_tokens)

    @classmethod
    def open(cls, path: str, layer: int = -1, batch_tokens: int = 8192, device: str = "cpu") -> TextEncoder:
        """The encoder in a folder, or of a name."""
        return cls.of(load_encoder(path, device), load_tokenizer(path, masks=False), layer, batch_tokens)

    def speaking(self, language: str, beside: str) -> TextEncoder:
        """The encoder for texts of a language that are compared with texts of another: itself, unless languages are
        mapped (see `encoder/mapped.py`).
        """
        return self

    def sentences(self, texts: Sequence[str], pooling: Pooling = "mean") -> Tensor:
        """A vector (N, D) for each text, in main memory: the mean of its subwords without special ones, or of all, or
        its first token, which is special, or its last subword.
        """
        found, order = [], []
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
            found.append(pooled_BD.cpu())
            order += rows
        return torch.cat(found)[torch.tensor(order).argsort()]

    def words(
        self, texts: Sequence[str], tokens: Sequence[Sequence[str]], pooling: Literal["mean", "last"] = "mean"
    ) -> list[tuple[list[int], Tensor]]:
        """Of each text the words that are there, by their places in `tokens`, and their vectors (W, D).

        `tokens` are what each text is cut into, in order. A word that was cut off with the end of a long text, or that
        the tokenizer has no subword for, is not there.
        """
        found: dict[int, tuple[list[int], Tensor]] = {}
        for rows, hidden_BTD, encoded in self._batches(texts):
            weights_BWT, there_BW = word_pools(
                [texts[row] for row in rows],
                [tokens[row] for row in rows],
                encoded["offset_mapping"].numpy(),
                _real(encoded).numpy(),
                pooling,
            )
            vectors_BWD = (weights_BWT.to(hidden_BTD) @ hidden_BTD).float().cpu()
            for row, vectors_WD, there_W in zip(rows, vectors_BWD, there_BW, strict=True):
                found[row] = there_W.nonzero()[:, 0].tolist(), vectors_WD[there_W]
        return [found[row] for row in range(len(texts))]

    def subwords(self, texts: Sequence[str]) -> list[tuple[Tensor, Tensor]]:
        """Of each text the character spans (T, 2) of its subwords, special ones left out, and their vectors (T, D)."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for rows, hidden_BTD, encoded in self._batches(texts):
            spans_BT2 = encoded["offset_mapping"]
            for row, spans_T2, vectors_TD, real_T in zip(
                rows, spans_BT2, hidden_BTD.float().cpu(), _real(encoded), strict=True
            ):
                found[row] = spans_T2[real_T], vectors_TD[real_T]
        return [found[row] for row in range(len(texts))]

    @torch.no_grad()
    def _batches(self, texts: Sequence[str], spans: bool = True) -> Iterator[tuple[list[int], Tensor, Any]]:
        """Batches of texts of like length: which they are, the layer's vectors (B, T, D), and what was read.

        With `spans`, where each subword stands in its text as well.
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
    """Where subwords stand that are neither special nor padding (B, T)."""
    return encoded["attention_mask"].bool() & (encoded["special_tokens_mask"] == 0)


def _padded(encoded: dict[str, list[Any]], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tensor]:
    """Lists of unequal length as tensors, filled up on the right."""
    longest = max(len(ids) for ids in encoded["input_ids"])
    fill: dict[str, Any] = {
        "input_ids": tokenizer.pad_token_id or 0,
        "attention_mask": 0,
        "special_tokens_mask": 1,
        "offset_mapping": (0, 0),
    }
    return {  # by way of numpy, which reads lists several times as fast
        name: torch.from_numpy(np.array([[*row, *[fill[name]] * (longest - len(row))] for row in rows]))
        for name, rows in encoded.items()
    }
