"""Static vectors by aggregation (Bommasani et al., 2020): a word's vector is the mean over its occurrences.

    v(w) = 1/|O(w)| Σ_{o ∈ O(w)} 1/|o| Σ_{t ∈ o} h_t^(layer)

where o runs over the occurrences of w in the corpus and t over the subwords of o. Any number of layers in one pass.

Shapes: U words of a block, V words of the vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from babelray.extraction.method import EXTRACTION_METHODS, EncoderMethod, OnProgress, PreparedBlock

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.extraction.language import LanguageExtraction
    from babelray.extraction.method import ReadBlocks
    from babelray.extraction.occurrences import Batch


@EXTRACTION_METHODS.register
class AggregateMethod(EncoderMethod):
    """The mean over a word's occurrences of its mean-pooled subwords (Bommasani et al., 2020)."""

    method: Literal["aggregate"] = "aggregate"

    def encode(self, language: LanguageExtraction, block: PreparedBlock, on_progress: OnProgress) -> dict[str, Tensor]:
        sums = OccurrenceSums(len(language.words))
        for batch, hidden in language.read(block.batches, on_progress):
            sums.add(batch, hidden)
        return sums.tensors()

    def combine(
        self, language: LanguageExtraction, blocks: ReadBlocks, layer: int, on_progress: OnProgress
    ) -> tuple[Tensor, Tensor]:
        return mean_vectors(blocks(), len(language.words), layer)


class OccurrenceSums:
    """Adds up the occurrences in a block of sentences; holds a row for each word that occurred."""

    def __init__(self, vocabulary: int) -> None:
        import torch

        self._row_V = torch.full((vocabulary,), -1)
        self._words: list[int] = []
        self._counts = torch.empty(0, dtype=torch.long)
        self._sums: dict[int, Tensor] = {}

    def add(self, batch: Batch, hidden: Mapping[int, Tensor]) -> None:
        """Add the occurrences of a batch, with the encoder's vectors of some layers."""
        import torch

        word_W = batch.word_W.cpu()
        new = word_W[self._row_V[word_W] < 0].unique()
        self._row_V[new] = torch.arange(len(self._words), len(self._words) + len(new))
        self._words += new.tolist()
        row_W = self._row_V[word_W]
        self._counts = torch.cat([self._counts, torch.zeros_like(new)]) + torch.bincount(
            row_W, minlength=len(self._words)
        )
        for layer, hidden_BTD in hidden.items():
            sums_WD, subwords_W = batch.pool(hidden_BTD)
            means_WD = (sums_WD / subwords_W.unsqueeze(1)).cpu()
            before_UD = self._sums.get(layer, means_WD[:0])
            grown_UD = torch.cat([before_UD, means_WD.new_zeros(len(new), means_WD.shape[1])])
            self._sums[layer] = grown_UD.index_add_(0, row_W, means_WD)

    def tensors(self) -> dict[str, Tensor]:
        """`words`: positions in the vocabulary; `counts`: of their occurrences; `layer.N`: sums of vectors (U, D)."""
        import torch

        sums = {f"layer.{layer}": sums_UD for layer, sums_UD in self._sums.items()}
        return {"words": torch.tensor(self._words, dtype=torch.long), "counts": self._counts, **sums}


def mean_vectors(blocks: Iterable[Mapping[str, Tensor]], vocabulary: int, layer: int) -> tuple[Tensor, Tensor]:
    """The mean vector (V, D) of every word over all blocks, zero for words that never occurred; and the counts (V)."""
    import torch

    sums_VD: Tensor | None = None
    counts_V = torch.zeros(vocabulary, dtype=torch.long)
    for block in blocks:
        if not len(block["words"]):
            continue
        block_UD = block[f"layer.{layer}"]
        if sums_VD is None:
            sums_VD = torch.zeros(vocabulary, block_UD.shape[1], dtype=torch.float64)
        sums_VD.index_add_(0, block["words"], block_UD.double())
        counts_V.index_add_(0, block["words"], block["counts"])
    if sums_VD is None:
        return torch.zeros(vocabulary, 0), counts_V
    return (sums_VD / counts_V.clamp(min=1).unsqueeze(1)).float(), counts_V
