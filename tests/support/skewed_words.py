"""Two skewed sets of words in which every word has a translation, and settings of seconds for adversarial flows."""

from __future__ import annotations

import torch

SMALL = {
    "layers": 2,
    "hidden": 16,
    "batch_size": 64,
    "epochs": 8,
    "learning_rate": 3e-3,
    "critic_learning_rate": 1e-2,
    "critic_hidden": 32,
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def world(words: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    """The same skewed heap of words, elsewhere and stretched."""
    x = torch.randn(words, 3, generator=seeded(0)).abs() * torch.tensor([1.0, 0.5, 2.0])
    return x, x * torch.tensor([1.3, 0.8, 0.9]) + torch.tensor([2.0, -1.0, 0.0])
