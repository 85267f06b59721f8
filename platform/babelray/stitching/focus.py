"""FOCUS-like embeddings: words that both vocabularies share are copied, and others made of them (Dobler and de Melo,
2023).

    F_i = e_i if i is shared, else Σ_{j shared} w_ij e_j,    w_i = sparsemax(cos(x_i, x_j) / τ)

where x are static vectors of the target language. It needs no dictionary, only names, numbers, signs and loans that
are spelt alike. The paper has τ = 1.

Where we differ: the paper trains fastText on text that the new tokenizer has cut; here the static vectors are given.
An encoder of many languages shares true words of the target too, which no other method here makes use of.

Shapes: N target words, S shared ones, E width of static vectors, D width of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.errors import DataError
from babelray.stitching.method import STITCHING_METHODS, FineTunedMethod, Neighbours, neighbour_count
from babelray.stitching.relative import relative

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.stitching.target import Target


@STITCHING_METHODS.register
class Focus(FineTunedMethod):
    """FOCUS (Dobler and de Melo, 2023): words that both vocabularies share are copied, others are made of them."""

    method: Literal["focus"] = "focus"
    k: Neighbours = "all"
    """Nearest shared words that a word is made of, or `all`."""
    temperature: float = Field(1.0, gt=0)
    """τ."""

    def target_embeddings(self, target: Target, seed: int) -> Tensor:
        import torch

        shared = target.source.pieces(target.words.words)
        rows_S = torch.tensor([target.words.position[word] for word in shared], dtype=torch.long)
        shared_SD = target.source.embeddings_VD[torch.tensor(list(shared.values()), dtype=torch.long)]
        return focus(target.vectors.matrix, rows_S, shared_SD, neighbour_count(self.k), self.temperature)


def focus(
    words_NE: Tensor, shared_S: Tensor, embeddings_SD: Tensor, k: int | None = None, temperature: float = 1.0
) -> Tensor:
    """F (N, D) from the positions of shared words and their embeddings in the encoder."""
    if not len(shared_S):
        raise DataError("the two vocabularies have no word in common", "Use another method than focus.")
    embeddings_ND = relative(words_NE, words_NE[shared_S], embeddings_SD, k, "sparsemax", temperature)
    embeddings_ND[shared_S] = embeddings_SD
    return embeddings_ND
