"""The vectors of one language, block by block.

What a method takes from a block of sentences, and how the blocks of a language become its vectors. Blocks can be made
anywhere and in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from babelray.encoder.layers import LayerReader, longest_input
from babelray.errors import DataError
from babelray.extraction.aggregate import Sums, means
from babelray.extraction.config import ExtractConfig
from babelray.extraction.dimensions import standardised, without_rogues
from babelray.extraction.isolated import isolated
from babelray.extraction.occurrences import Batch, Sentence, batches
from babelray.extraction.x2static import Contexts, keep_probability, train
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

Tensors = Mapping[str, "Tensor"]


@dataclass
class LanguageExtraction:
    """One language's words, and the encoder that reads them."""

    config: ExtractConfig
    reader: LayerReader
    tokenizer: PreTrainedTokenizerBase
    vocabulary: Mapping[str, int]
    layer: int
    seed: int

    def __post_init__(self) -> None:
        self.words = list(self.vocabulary)
        self.position = {word: i for i, word in enumerate(self.words)}
        self.counts = np.fromiter(self.vocabulary.values(), np.int64, len(self.words))
        self.longest = longest_input(self.reader.model, self.tokenizer)

    def prepare(self, sentences: Sequence[Sentence], counts: Counter[str]) -> list[Batch]:
        """Batches for the encoder; all that can be done for a block without it."""
        return list(batches(sentences, self.tokenizer, self.position, self.longest, self.config.batch_tokens, counts))

    def block(
        self, number: int, prepared: Sequence[Batch], advance: Callable[[int], None] = lambda rows: None
    ) -> dict[str, Tensor]:
        """What the chosen method takes from a block; `advance` is told the rows that are done."""
        config, done = self.config, 0
        sums = Sums(len(self.words))
        chance_V = keep_probability(self.counts, config.x2static.subsample)
        contexts = Contexts(chance_V, self.seed, number, config.x2static.without_target)
        adds_up = config.method == "aggregate" or config.x2static.start == "aggregate"
        for batch in prepared:
            moved = batch.to(self.reader.device)
            hidden = self.reader(moved.ids_BT, moved.mask_BT)
            if adds_up:
                sums.add(moved, hidden)
            if config.method == "x2static":
                contexts.add(moved, hidden[self.layer])
            done += len(batch.ids_BT)
            advance(done)
        found = sums.tensors() if adds_up else {}
        return found | contexts.tensors() if config.method == "x2static" else found

    def alone(self, start: int, count: int, counts: Counter[str]) -> dict[str, Tensor]:
        """A block of the vocabulary, each word by itself."""
        words = self.words[start : start + count]
        found = isolated(self.reader, self.tokenizer, words, self.longest, self.config.batch_tokens, counts)
        return found | {"words": found["words"] + start}

    def combine(
        self,
        blocks: Callable[[], Iterable[Tensors]],
        layer: int,
        advance: Callable[[int], None] = lambda occurrences: None,
    ) -> WordVectors:
        """The language's vectors at a layer from all its blocks, which `blocks()` gives as often as it is asked."""
        if self.config.method == "x2static":
            matrix, counts = self._learned(blocks, advance)
        elif self.config.method == "aggregate":
            matrix, counts = means(blocks(), len(self.words), layer)
        else:
            matrix, counts = _joined(blocks(), self.counts, layer)
        kept = counts.nonzero().flatten()
        if not len(kept):
            raise DataError(
                "the encoder's tokenizer knows no word of the vocabulary", "Use an encoder of the language."
            )
        return WordVectors(
            [self.words[i] for i in kept.tolist()], self._changed(matrix[kept]).contiguous(), counts[kept].tolist()
        )

    def _learned(
        self, blocks: Callable[[], Iterable[Tensors]], advance: Callable[[int], None]
    ) -> tuple[Tensor, Tensor]:
        """Only words that were learned have a vector, unless all started with one."""
        config, width = self.config.x2static, self.reader.model.config.hidden_size
        counts = torch.from_numpy(self.counts)
        if config.start == "aggregate":
            start, occurred = means(blocks(), len(self.words), self.layer)
            # Scores of about 1: beyond the clamp there is nothing to learn.
            start = start / start.square().sum(1).mean().clamp(min=1e-12)
        else:
            start, occurred = torch.zeros(len(self.words), width), torch.zeros_like(counts)
            for block in blocks():
                occurred.index_add_(0, block["targets"], torch.ones_like(block["targets"]))
            if config.start == "random":
                start.uniform_(-0.5 / width, 0.5 / width, generator=torch.Generator().manual_seed(self.seed))
        learned = train(blocks, start, counts, config, self.seed, advance)
        return learned, torch.where(occurred > 0, counts, 0)

    def _changed(self, matrix: Tensor) -> Tensor:
        if self.config.remove_dimensions:
            matrix = without_rogues(matrix, self.config.remove_dimensions)
        return standardised(matrix) if self.config.standardise else matrix


def _joined(blocks: Iterable[Tensors], counts: np.ndarray, layer: int) -> tuple[Tensor, Tensor]:
    """Blocks of the vocabulary one after the other; words that the tokenizer does not know are left out."""
    found = list(blocks)
    words = torch.cat([block["words"] for block in found])
    rows = [block[f"layer.{layer}"] for block in found if len(block["words"])]
    matrix = torch.zeros(len(counts), rows[0].shape[1] if rows else 0)
    if rows:
        matrix[words] = torch.cat(rows)
    kept = torch.zeros(len(counts), dtype=torch.bool)
    kept[words] = True
    return matrix, torch.where(kept, torch.from_numpy(counts).clamp(min=1), 0)


def sentences_of(table: pa.Table, paragraphs: bool) -> list[Sentence]:
    """The sentences of a block; or its paragraphs, with their sentences joined by a space."""
    texts, tokens = table["text"].to_pylist(), table["tokens"].to_pylist()
    if not paragraphs:
        return [Sentence(text, own) for text, own in zip(texts, tokens, strict=True)]
    joined: dict[tuple[int, int], Sentence] = {}
    places = zip(table["document"].to_pylist(), table["paragraph"].to_pylist(), strict=True)
    for place, text, own in zip(places, texts, tokens, strict=True):
        if place in joined:
            before = joined[place]
            joined[place] = Sentence(f"{before.text} {text}", [*before.tokens, *own])
        else:
            joined[place] = Sentence(text, own)
    return list(joined.values())
