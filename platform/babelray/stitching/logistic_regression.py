"""Logistic regression on texts as means of their words' static vectors: a baseline without an encoder.

    min_{W, b} Σ_n −log softmax(x_n W + b)[y_n] + λ/2 ‖W‖²

Ye et al. (2024, section 5.2) train it on labels of the target language, which no other system uses. Every dimension is
scaled to variance 1 over the training texts, so that λ means the same for all kinds of vectors.

Shapes: N training texts, M test texts, E width, C classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from babelray.stitching.method import STITCHING_METHODS, StitchingMethod

if TYPE_CHECKING:
    from torch import Tensor


@STITCHING_METHODS.register
class LogisticRegression(StitchingMethod):
    """Logistic regression on averaged static vectors, trained on labels of the target language."""

    swaps: ClassVar[bool] = False

    method: Literal["logistic-regression"] = "logistic-regression"
    ridge: float = Field(1.0, ge=0)
    """λ: how strongly the weights are pulled toward zero."""

    def classify(self, texts_NE: Tensor, labels_N: Tensor, tests_ME: Tensor) -> Tensor:
        classes = int(labels_N.max()) + 1
        return fit_logistic(texts_NE, labels_N, classes, self.ridge).logits(tests_ME).argmax(1)


class LogisticModel(NamedTuple):
    """A fitted model."""

    mean_E: Tensor
    scale_E: Tensor
    weights_EC: Tensor
    bias_C: Tensor

    def logits(self, texts_NE: Tensor) -> Tensor:
        return ((texts_NE.double() - self.mean_E) / self.scale_E) @ self.weights_EC + self.bias_C


def fit_logistic(texts_NE: Tensor, labels_N: Tensor, classes: int, ridge: float = 1.0) -> LogisticModel:
    """The minimum, found by L-BFGS in double precision; `ridge` is λ."""
    import torch
    from torch.nn import functional

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
    return LogisticModel(mean_E, scale_E, weights_EC.detach(), bias_C.detach())
