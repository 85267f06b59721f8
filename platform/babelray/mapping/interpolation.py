"""Static vectors and an encoder's vectors of the same words, in one space and mixed (Vulić et al., 2023, section 2.1).

    v_w = (1 − λ) · s_w W / ‖s_w W‖ + λ · f(w) / ‖f(w)‖                                                     (eq. 1)

s_w is the static vector of a word, of length 1; f(w) the encoder's vector of the word alone. λ = 0 is the static
space, λ = 1 the encoder's. W (E, D) rotates static vectors into the encoder's space without stretching them; it solves
a Procrustes problem over single words, each with both of its vectors (the paper's footnote 7):

    W* = argmax_W tr(Wᵀ Sᵀ F) = U Vᵀ,   U Σ Vᵀ = thin svd(Sᵀ F)

With E ≤ D and W Wᵀ = I this is also the least-squares solution, since ‖S W‖ does not depend on W. With E > D (static
vectors wider than the encoder; the paper has none) WᵀW = I cuts dimensions off, ‖S W‖ varies, and the least-squares
problem has no closed form: the same W, which brings directions nearest, is used.

Shapes: N words, E width of static vectors, D width of the encoder's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from babelray.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor


def rectangular_procrustes(static_NE: Tensor, encoded_ND: Tensor) -> Tensor:
    """W (E, D), fitted on words of which both vectors are given; computed in double precision.

    >>> torch.manual_seed(1)                                                     # doctest: +ELLIPSIS
    <...>
    >>> static = torch.randn(50, 4)
    >>> rotation, _ = torch.linalg.qr(torch.randn(6, 4))
    >>> torch.allclose(rectangular_procrustes(static, static @ rotation.T), rotation.T, atol=1e-5)
    True
    """
    if static_NE.shape[0] != encoded_ND.shape[0]:
        raise DataError(f"{len(static_NE)} static vectors and {len(encoded_ND)} of the encoder cannot be paired")
    if not len(static_NE):
        raise DataError(
            "no word of the dictionary has a static vector", "Give vectors of the dictionary's words, or a larger one."
        )
    s_NE, f_ND = functional.normalize(static_NE.double()), functional.normalize(encoded_ND.double())
    if not (torch.isfinite(s_NE).all() and torch.isfinite(f_ND).all()):
        raise DataError("a vector is not finite", "Make the vectors again without it.")
    u_EK, _, vt_KD = torch.linalg.svd(s_NE.T @ f_ND, full_matrices=False)
    return (u_EK @ vt_KD).to(static_NE.dtype)


def interpolate(static_NE: Tensor, rotation_ED: Tensor, encoded_ND: Tensor, lambda_: float) -> Tensor:
    """Equation 1 for N words; `lambda_` is λ. A word whose static vector is zero keeps the encoder's alone."""
    if not 0 <= lambda_ <= 1:
        raise DataError(f"λ is {lambda_}", "Give a value between 0 (static vectors) and 1 (the encoder's).")
    static_ND = functional.normalize(static_NE @ rotation_ED)
    encoded_ND = functional.normalize(encoded_ND)
    mixed_ND = (1 - lambda_) * static_ND + lambda_ * encoded_ND
    return torch.where(static_NE.any(1, keepdim=True), mixed_ND, encoded_ND)
