"""The vectors of one language, block by block: what all extraction methods that read an encoder share.

Blocks can be encoded anywhere and in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from babelray.encoder.layers import LayerReader, longest_input
from babelray.errors import DataError
from babelray.extraction.dimensions import remove_rogue_dimensions, standardise
from babelray.extraction.method import EncoderMethod, PreparedBlock
from babelray.extraction.occurrences import Batch, Sentence, make_batches
from babelray.text.corpus import read_block
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from babelray.extraction.method import ReadBlocks
    from babelray.text.corpus import Block


@dataclass
class LanguageExtraction:
    """One language's words, and the encoder that reads them."""

    method: EncoderMethod
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

    def make_batches(self, sentences: Sequence[Sentence], counts: Counter[str]) -> list[Batch]:
        """Batches for the encoder."""
        return list(
            make_batches(sentences, self.tokenizer, self.position, self.longest, self.method.batch_tokens, counts)
        )

    def prepare(self, number: int, block: Block) -> PreparedBlock:
        """All that can be done for a block while the encoder is busy with another."""
        prepared = PreparedBlock(number, block.start, block.count)
        if "text" in self.method.needs:
            sentences = sentences_from_table(read_block(block), self.method.reads_paragraphs)
            prepared.batches = self.make_batches(sentences, prepared.counts)
        return prepared

    def read(
        self, batches: Sequence[Batch], on_progress: Callable[[int], None]
    ) -> Iterator[tuple[Batch, dict[int, Tensor]]]:
        """Each batch, on the encoder's device, with its vectors at the layers that are read."""
        rows = 0
        for batch in batches:
            moved = batch.to(self.reader.device)
            yield moved, self.reader(moved.ids_BT, moved.mask_BT)
            rows += len(batch.ids_BT)
            on_progress(rows)

    def encode(self, block: PreparedBlock, on_progress: Callable[[int], None] = lambda rows: None) -> dict[str, Tensor]:
        """What the method keeps of a block; `on_progress` receives the number of rows that have been encoded."""
        return self.method.encode(self, block, on_progress)

    def combine(
        self, blocks: ReadBlocks, layer: int, on_progress: Callable[[int], None] = lambda occurrences: None
    ) -> WordVectors:
        """The language's vectors at a layer from all its encoded blocks, which `blocks()` yields at every call."""
        matrix, counts = self.method.combine(self, blocks, layer, on_progress)
        rows = counts.nonzero().flatten()
        if not len(rows):
            raise DataError(
                "the encoder's tokenizer knows no word of the vocabulary", "Use an encoder of the language."
            )
        matrix = self._postprocess(matrix[rows]).contiguous()
        return WordVectors([self.words[i] for i in rows.tolist()], matrix, counts[rows].tolist())

    def _postprocess(self, matrix: Tensor) -> Tensor:
        if self.method.remove_dimensions:
            matrix = remove_rogue_dimensions(matrix, self.method.remove_dimensions)
        return standardise(matrix) if self.method.standardise else matrix


def sentences_from_table(table: pa.Table, paragraphs: bool) -> list[Sentence]:
    """The sentences of a block; or its paragraphs, with their sentences joined by a space."""
    texts, tokens = table["text"].to_pylist(), table["tokens"].to_pylist()
    if not paragraphs:
        return [Sentence(text, own) for text, own in zip(texts, tokens, strict=True)]
    joined: dict[tuple[int, int], Sentence] = {}
    positions = zip(table["document"].to_pylist(), table["paragraph"].to_pylist(), strict=True)
    for position, text, own in zip(positions, texts, tokens, strict=True):
        if position in joined:
            before = joined[position]
            joined[position] = Sentence(f"{before.text} {text}", [*before.tokens, *own])
        else:
            joined[position] = Sentence(text, own)
    return list(joined.values())
