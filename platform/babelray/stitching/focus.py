"""FOCUS-like embeddings: words that both vocabularies share are copied, and others made of them (Dobler and de Melo,
2023).

    F_i = e_i if i is shared, else Σ_{j shared} w_ij e_j,    w_i = sparsemax(cos(x_i, x_j))

where x are static vectors of the target language: no dictionary is asked for, only names, numbers, signs and loans
that are spelt alike.

Where we differ: the paper trains fastText on text that the new tokenizer has cut; here the static vectors are given.
An encoder of many languages shares true words of the target too, which no other method here makes use of.

Shapes: N target words, S shared ones, E width of static vectors, D width of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from babelray.errors import DataError
from babelray.stitching.relative import relative

if TYPE_CHECKING:
    from torch import Tensor


def focus(
    words_NE: Tensor, shared_S: Tensor, embeddings_SD: Tensor, k: int | None = None, temperature: float = 1.0
) -> Tensor:
    """F (N, D) from the positions of shared words and their embeddings in the encoder."""
    if not len(shared_S):
        raise DataError("the two vocabularies have no word in common", "Use another method than focus.")
    found_ND = relative(words_NE, words_NE[shared_S], embeddings_SD, k, "sparsemax", temperature)
    found_ND[shared_S] = embeddings_SD
    return found_ND
