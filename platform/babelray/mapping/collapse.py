"""Collapse of unsupervised mappings, detected without a dictionary.

Self-learning always ends, and its objective always rises; from a bad start it ends in a space where the words of
one language lie near unrelated words of the other. Two signs show it without any dictionary: the objective (the mean
cosine of words to their best translations), and the share of words whose best translation has them as its own best.
Both are compared with their values for the same number of words after self-learning from a random rotation, refined
for a few rounds. A mapping that does no better has collapsed, or cannot be distinguished from one that has: where
vectors are poor, this may include a mapping that finds a few translations.

Shapes: N and M words, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from babelray.mapping.induction import Inducer
from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    from torch import Tensor

ADVICE = (
    "Give a dictionary, even a small one, or start from words spelt alike (dictionary: identical); or map through a "
    "related language, or use vectors from more text."
)


@dataclass(frozen=True)
class Health:
    """The two signs, of a mapping and of one from a random start; shares between 0 and 1."""

    objective: float
    mutual: float
    random_objective: float
    random_mutual: float

    @property
    def collapsed(self) -> bool:
        """Whether it is hardly better than one from a random start, by both signs."""
        return self.mutual < 1.5 * self.random_mutual and self.objective < 1.1 * self.random_objective

    def __str__(self) -> str:
        return (
            f"{self.mutual:.0%} of the words are mutual neighbours ({self.random_mutual:.0%} from a random start), "
            f"mean cosine {self.objective:.2f} ({self.random_objective:.2f})"
        )


def detect_collapse(mapped_ND: Tensor, target_MD: Tensor, words: int = 5000, rounds: int = 10, seed: int = 1) -> Health:
    """Compare a mapping with one from a random start, on the most frequent words."""
    x_ND, z_MD = functional.normalize(mapped_ND[:words]), functional.normalize(target_MD[:words])
    inducer = Inducer(len(x_ND), len(z_MD), device=x_ND.device)
    induced = inducer(x_ND, z_MD, direction="mutual")
    generator = torch.Generator().manual_seed(seed)
    rotation_DD = torch.linalg.qr(torch.randn(x_ND.shape[1], z_MD.shape[1], generator=generator)).Q.to(x_ND)
    for _ in range(rounds):
        random = inducer(x_ND @ rotation_DD, z_MD)
        rotation_DD = rotation(x_ND[random.source_P], z_MD[random.target_P])
    random = inducer(x_ND @ rotation_DD, z_MD, direction="mutual")
    count = len(x_ND)
    return Health(induced.objective, len(induced.source_P) / count, random.objective, len(random.source_P) / count)
