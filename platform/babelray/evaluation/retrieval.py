"""Sentence retrieval: is a sentence's nearest neighbour in the other language its translation?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from babelray.vectors.retrieval import nearest

if TYPE_CHECKING:
    from torch import Tensor


def retrieval_accuracy(source_ND: Tensor, target_ND: Tensor) -> dict[str, float]:
    """Accuracy by cosine in both directions and their mean; row i of one side translates row i of the other."""
    expected_N = torch.arange(len(source_ND))
    forward = (nearest(source_ND, target_ND)[1][:, 0] == expected_N).float().mean().item()
    backward = (nearest(target_ND, source_ND)[1][:, 0] == expected_N).float().mean().item()
    return {"to_hub": forward, "from_hub": backward, "mean": (forward + backward) / 2}
