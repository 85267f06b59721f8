"""Least squares: the linear projection of target vectors onto the encoder's embeddings (Ye et al., 2024, section 5.2).

    W* = argmin_W ‖A^t W − A^s‖²_F                    F_i = x_i W*

`mapping/least_squares.py` does the same with vectors of length 1 and mean 0. Here neither side is changed: what comes
out must be as long as the embeddings that the encoder is used to.

Shapes: N words, A anchors, E width of the target's space, D width of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def project(words_NE: Tensor, anchors_AE: Tensor, embeddings_AD: Tensor) -> Tensor:
    """F (N, D); with fewer anchors than dimensions by the projection of least norm."""
    matrix_ED = torch.linalg.pinv(anchors_AE.double()) @ embeddings_AD.double()
    return words_NE @ matrix_ED.to(words_NE.dtype)
