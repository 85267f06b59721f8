"""WECHSEL-like embeddings: a word as a mean of the source words that mean the same (Minixhofer et al., 2022).

    F_i = Σ_{j ∈ N(i)} softmax_j(cos(x_i R, z_j) / τ) e_j

where R is the rotation that brings the target's static vectors nearest to the source's on a dictionary (Procrustes),
and N(i) holds the k source words nearest to x_i R. The paper takes k = 10 and τ = 0.1.

Where we differ: the paper makes static vectors of subwords from fastText's character n-grams. Files of word vectors
have none, so only subwords that are whole words, with a static vector of their own, are source words here; and the
target's tokens are words to begin with.

Shapes: N target words, M source words, E width of static vectors, D width of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from babelray.mapping.linear import check_pairs
from babelray.mapping.procrustes import procrustes
from babelray.stitching.relative import relative

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.linear import Dictionary


def wechsel(
    target_NE: Tensor,
    source_ME: Tensor,
    embeddings_MD: Tensor,
    dictionary: Dictionary,
    k: int | None = 10,
    temperature: float = 0.1,
) -> Tensor:
    """F (N, D); the dictionary has positions of target words, and of the source words that translate them."""
    check_pairs(target_NE, source_ME, dictionary, same_width=True)
    turned, normal = procrustes(target_NE, source_ME, dictionary)
    x_NE, z_ME = turned.transform(target_NE), normal.transform(source_ME)
    return relative(x_NE, z_ME, embeddings_MD, k, "softmax", temperature)
