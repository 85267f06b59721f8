"""Logistic regression on texts as means of their words' static vectors: what needs no encoder at all.

    min_{W, b} Σ_n −log softmax(x_n W + b)[y_n] + λ/2 ‖W‖²

Ye et al. (2024, section 5.2) train it in the target language, which the other systems never see labels of. Every
dimension is given variance 1 over the training texts, so that λ means the same for all kinds of vectors.

Shapes: N texts, E width, C classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor


class LogisticRegression(NamedTuple):
    """A fitted model."""

    mean_E: Tensor
    scale_E: Tensor
    weights_EC: Tensor
    bias_C: Tensor

    def logits(self, texts_NE: Tensor) -> Tensor:
        return ((texts_NE.double() - self.mean_E) / self.scale_E) @ self.weights_EC + self.bias_C


def fit_logistic(texts_NE: Tensor, labels_N: Tensor, classes: int, ridge: float = 1.0) -> LogisticRegression:
    """The minimum, found by L-BFGS in double precision; `ridge` is λ."""
    x_NE = texts_NE.double()
    mean_E, scale_E = x_NE.mean(0), x_NE.std(0, correction=0)
    scale_E = torch.where(scale_E > 0, scale_E, 1)
    x_NE = (x_NE - mean_E) / scale_E
    weights_EC = torch.zeros(x_NE.shape[1], classes, dtype=torch.double, requires_grad=True)
    bias_C = torch.zeros(classes, dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights_EC, bias_C], max_iter=1000, tolerance_grad=1e-6, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(x_NE @ weights_EC + bias_C, labels_N, reduction="sum")
        value = value + ridge / 2 * weights_EC.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return LogisticRegression(mean_E, scale_E, weights_EC.detach(), bias_C.detach())
