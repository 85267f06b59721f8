"""WECHSEL-like embeddings: a word as a mean of the source words that mean the same (Minixhofer et al., 2022).

    F_i = Σ_{j ∈ N(i)} softmax_j(cos(x_i R, z_j) / τ) e_j

where R is the rotation that brings the target's static vectors nearest to the source's on a dictionary (Procrustes),
and N(i) holds the k source words nearest to x_i R. The paper takes k = 10 and τ = 0.1.

Where we differ: the paper makes static vectors of subwords from fastText's character n-grams. Files of word vectors
have none, so only subwords that are whole words, with a static vector of their own, are source words here; and the
target's tokens are words to begin with.

Shapes: N target words, M source words, P pairs, E width of static vectors, D width of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.stitching.method import STITCHING_METHODS, AnchoredMethod, Neighbours, neighbour_count
from babelray.stitching.relative import relative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from babelray.mapping.linear import Dictionary
    from babelray.stitching.anchors import Anchors
    from babelray.stitching.target import Target


@STITCHING_METHODS.register
class Wechsel(AnchoredMethod):
    """WECHSEL (Minixhofer et al., 2022): words as means of the nearest words of the hub, with the anchors as the
    dictionary that the rotation is fitted on.
    """

    method: Literal["wechsel"] = "wechsel"
    k: Neighbours = 10
    """Nearest words of the hub that a word is made of, or `all`."""
    temperature: float = Field(0.1, gt=0)
    """τ."""

    def target_embeddings(self, target: Target, seed: int) -> Tensor:
        import torch

        source = target.source
        pieces = source.pieces(source.hub.words)
        rows = [source.hub.position[word] for word in pieces]
        return wechsel(
            target.vectors.matrix,
            source.hub.matrix[torch.tensor(rows, dtype=torch.long)],
            source.embeddings_VD[torch.tensor(list(pieces.values()), dtype=torch.long)],
            _dictionary(self.find_anchors(target, seed), list(pieces)),
            neighbour_count(self.k),
            self.temperature,
        )


def _dictionary(anchors: Anchors, source_words: Sequence[str]) -> Dictionary:
    """The anchors whose translations are source words, as positions (P) of both."""
    import torch

    positions = {word: number for number, word in enumerate(source_words)}
    pairs = [
        (row, positions[translation])
        for row, (_, translation) in zip(anchors.rows_A.tolist(), anchors.pairs, strict=True)
        if translation in positions
    ]
    pairs_2P = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    return pairs_2P[0], pairs_2P[1]


def wechsel(
    target_NE: Tensor,
    source_ME: Tensor,
    embeddings_MD: Tensor,
    dictionary: Dictionary,
    k: int | None = 10,
    temperature: float = 0.1,
) -> Tensor:
    """F (N, D); the dictionary has positions of target words, and of the source words that translate them."""
    from babelray.mapping.linear import check_pairs
    from babelray.mapping.procrustes import procrustes

    check_pairs(target_NE, source_ME, dictionary, same_width=True)
    rotation, normalisation = procrustes(target_NE, source_ME, dictionary)
    x_NE, z_ME = rotation.transform(target_NE), normalisation.transform(source_ME)
    return relative(x_NE, z_ME, embeddings_MD, k, "softmax", temperature)
