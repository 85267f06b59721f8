"""Losses for other people's training loops: functions of tensors, with gradients.

Each is the loss of the objective with the same name in a recipe, averaged over its terms. `babelray.losses` needs torch
alone: no Ray, no recipe.

Shapes: B sentence pairs; S and T words of source and target; N words or texts; D and E widths; L links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from babelray.errors import DataError
from babelray.objectives.sinkhorn import sinkhorn_divergence, transport_plan

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "contrastive",
    "distillation",
    "sinkhorn_divergence",
    "static_dcca",
    "static_mse",
    "transport_plan",
    "word_l2",
]


def contrastive(source: Tensor, target: Tensor, scale: float = 20.0, same: Tensor | None = None) -> Tensor:
    """The multiple-negatives ranking loss, the mean of both directions (Henderson et al., 2017).

        L = −1/N Σ_i log  exp(C · cos(x_i, y_i)) / Σ_j exp(C · cos(x_i, y_j))

    Args:
        source: Vectors (N, D) of words or sentences.
        target: Vectors (N, D) of their translations.
        scale: C, an inverse temperature.
        same: Where (N, N) pair j translates pair i too, and is no negative; by default every pair is its own only
            translation.

    Returns:
        The loss, a scalar.

    Examples:
        >>> import torch, babelray as br
        >>> x = torch.eye(3, requires_grad=True)
        >>> loss = br.losses.contrastive(x, torch.eye(3))
        >>> loss.backward()
        >>> bool(loss < 1e-6), x.grad.shape
        (True, torch.Size([3, 3]))
    """
    import torch

    from babelray.objectives.contrastive import ranking_terms

    _check_rows(source, target)
    if same is None:
        same = torch.eye(len(source), dtype=torch.bool, device=source.device)
    return ranking_terms(source, target, same, scale).mean()


def distillation(student: Tensor, teacher: Tensor, scale: float | None = None) -> Tensor:
    """The distance of a student's vectors from a teacher's, 1 − cos, averaged.

    Args:
        student: Vectors (N, D) of texts.
        teacher: The teacher's vectors (N, D) of the same texts, or of their translations.
        scale: If given, the ranking loss of `contrastive` with this scale is added.

    Returns:
        The loss, a scalar.

    Examples:
        >>> import torch, babelray as br
        >>> round(br.losses.distillation(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])).item(), 4)
        1.0
    """
    import torch

    from babelray.objectives.distillation import distillation_terms

    _check_rows(student, teacher)
    same = torch.eye(len(student), dtype=torch.bool, device=student.device)
    return distillation_terms(student, teacher, same, scale).mean()


def static_dcca(words: Tensor, static: Tensor, shrinkage: float = 0.1) -> Tensor:
    """The negative sum of canonical correlations of two views of the same words (Hämmerl et al., 2022).

        L = −Σ_i ρ_i,   ρ = singular values of Σ₁₁^(−1/2) Σ₁₂ Σ₂₂^(−1/2)

    Args:
        words: The encoder's vectors (N, D) of words. Take several times as many words as the encoder is wide.
        static: Aligned static vectors (N, E) of the same words.
        shrinkage: The share of the mean variance that is mixed into each covariance.

    Returns:
        The loss, a scalar.

    Examples:
        >>> import torch, babelray as br
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
        >>> turned = x @ torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(1))).Q
        >>> round(br.losses.static_dcca(x, turned, shrinkage=1e-6).item(), 3)
        -4.0
    """
    from babelray.objectives.static_dcca import correlation_terms

    _check_rows(words, static)
    return -correlation_terms(words, static, shrinkage).mean().float()


def static_mse(words: Tensor, static: Tensor) -> Tensor:
    """The mean squared error between the encoder's vectors of words and static ones of the same width.

    Args:
        words: The encoder's vectors (N, D) of words.
        static: Aligned static vectors (N, D) of the same words.

    Returns:
        The loss, a scalar.

    Examples:
        >>> import torch, babelray as br
        >>> br.losses.static_mse(torch.zeros(2, 3), torch.ones(2, 3))
        tensor(1.)
    """
    from babelray.objectives.static_mse import error_terms

    return error_terms(words, static).mean()


def word_l2(source: Tensor, target: Tensor, links: Tensor) -> Tensor:
    """The squared distance between aligned words, summed over each pair of sentences and averaged (Cao et al., 2020).

        L = 1/B Σ_b Σ_(i,j) ‖ x_bi − y_bj ‖²

    Args:
        source: Vectors (B, S, D) of the words of sentences.
        target: Vectors (B, T, D) of the words of their translations.
        links: Aligned words (L, 3): the number of the pair, and the positions of the source and the target word.

    Returns:
        The loss, a scalar.

    Examples:
        >>> import torch, babelray as br
        >>> source, target = torch.zeros(1, 2, 3), torch.ones(1, 2, 3)
        >>> br.losses.word_l2(source, target, torch.tensor([[0, 0, 0], [0, 1, 1]]))
        tensor(6.)
    """
    from babelray.objectives.word_l2 import word_distances

    return word_distances(source, target, links).mean()


def _check_rows(first: Tensor, second: Tensor) -> None:
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second):
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise DataError(f"the vectors have the shapes {shapes}", "Give two matrices with as many rows.")
