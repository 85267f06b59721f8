"""Vectors of several languages in two dimensions, for plots.

Shapes: N words of a language, M words of all languages, D dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from babelray.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor


def project(vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Project the vectors (N, D) of each language on the two directions in which all of them together vary most.

    With rows x̂ = x / ‖x‖ of all languages and their mean μ, X = [x̂ - μ] = U S Vᵀ and the result is X V₂: principal
    component analysis. One mean and one V₂ serve all languages, so that languages that are apart in the space are
    apart in the plot; a mean per language would hide that. The sign of a direction makes its largest entry positive,
    so that the same vectors always give the same plot.
    """
    import torch
    from torch.nn.functional import normalize

    widths = {code: tuple(x_ND.shape[1:]) for code, x_ND in vectors.items()}
    if len(set(widths.values())) > 1:
        described = ", ".join(f"{code} {' x '.join(map(str, width))}" for code, width in widths.items())
        raise DataError(f"the languages' vectors differ in width: {described}", "Use vectors of one encoder.")
    x_MD = torch.cat([x_ND.double() for x_ND in vectors.values()]) if vectors else torch.zeros(0, 0)
    if x_MD.ndim != 2 or min(x_MD.shape) < 2:
        raise DataError(
            f"vectors of shape {tuple(x_MD.shape)} cannot be projected to two dimensions",
            "Give at least two words and two dimensions.",
        )
    if not x_MD.isfinite().all():
        raise DataError(
            "some vectors contain numbers that are not finite", "Check whether the training of the encoder diverged."
        )
    x_MD = normalize(x_MD, dim=1)
    x_MD = x_MD - x_MD.mean(0)
    v_2D = torch.linalg.svd(x_MD, full_matrices=False).Vh[:2]
    largest_21 = v_2D.gather(1, v_2D.abs().argmax(1, keepdim=True))
    y_M2 = x_MD @ (v_2D * largest_21.sign()).T
    return dict(zip(vectors, y_M2.float().split([len(x_ND) for x_ND in vectors.values()]), strict=True))
