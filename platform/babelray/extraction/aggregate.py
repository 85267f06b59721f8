"""Static vectors by aggregation (Bommasani et al., 2020): a word's vector is the mean over its occurrences.

    v(w) = 1/|O(w)| Σ_{o ∈ O(w)} 1/|o| Σ_{t ∈ o} h_t^(layer)

where o runs over the occurrences of w in the corpus and t over the subwords of o. Any number of layers in one pass.

Shapes: U words of a block, V words of the vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.extraction.occurrences import Batch


class Sums:
    """Adds up the occurrences in a block of sentences; holds a row for each word that occurred."""

    def __init__(self, vocabulary: int) -> None:
        self._row_V = torch.full((vocabulary,), -1)
        self._words: list[int] = []
        self._counts = torch.empty(0, dtype=torch.long)
        self._sums: dict[int, Tensor] = {}

    def add(self, batch: Batch, hidden: Mapping[int, Tensor]) -> None:
        """The words of a batch, with the vectors of some layers."""
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
        """`words`: which; `counts`: how often; `layer.N`: the sum of their vectors (U, D)."""
        sums = {f"layer.{layer}": sums_UD for layer, sums_UD in self._sums.items()}
        return {"words": torch.tensor(self._words, dtype=torch.long), "counts": self._counts, **sums}


def means(blocks: Iterable[Mapping[str, Tensor]], vocabulary: int, layer: int) -> tuple[Tensor, Tensor]:
    """The mean vector (V, D) of every word over all blocks, zero for words that never occurred; and the counts (V)."""
    sums_VD: Tensor | None = None
    counts_V = torch.zeros(vocabulary, dtype=torch.long)
    for block in blocks:
        if not len(block["words"]):
            continue
        found_UD = block[f"layer.{layer}"]
        if sums_VD is None:
            sums_VD = torch.zeros(vocabulary, found_UD.shape[1], dtype=torch.float64)
        sums_VD.index_add_(0, block["words"], found_UD.double())
        counts_V.index_add_(0, block["words"], block["counts"])
    if sums_VD is None:
        return torch.zeros(vocabulary, 0), counts_V
    return (sums_VD / counts_V.clamp(min=1).unsqueeze(1)).float(), counts_V
