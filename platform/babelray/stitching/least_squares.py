"""Least squares: the linear projection of target vectors onto the encoder's embeddings (Ye et al., 2024, section 5.2).

    W* = argmin_W ‖A^t W − A^s‖²_F                    F_i = x_i W*

`mapping/least_squares.py` does the same with vectors of length 1 and mean 0. Here neither side is normalised, so that
the results have the lengths of the encoder's own embeddings.

Shapes: N words, A anchors, E width of the target's space, D width of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from babelray.stitching.method import STITCHING_METHODS, AnchoredMethod

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.stitching.target import Target


@STITCHING_METHODS.register
class LeastSquares(AnchoredMethod):
    """A linear projection of static vectors onto the encoder's embeddings."""

    baseline: ClassVar[bool] = True

    method: Literal["least-squares"] = "least-squares"

    def target_embeddings(self, target: Target, seed: int) -> Tensor:
        anchors = self.find_anchors(target, seed)
        words_NE = target.vectors.matrix
        return project(words_NE, words_NE[anchors.rows_A], target.source.embeddings_VD[anchors.pieces_A])


def project(words_NE: Tensor, anchors_AE: Tensor, embeddings_AD: Tensor) -> Tensor:
    """F (N, D); with fewer anchors than dimensions by the projection of least norm."""
    import torch

    matrix_ED = torch.linalg.pinv(anchors_AE.double()) @ embeddings_AD.double()
    return words_NE @ matrix_ED.to(words_NE.dtype)
