"""Which epoch of a training is the best? Criteria that need no translations, only the vectors of both languages.

Zhao and Eger (2022, section 4.2) induce the most confident translations by CSLS, (x_i, y_i), and judge by these:

    semantic      1/P Σ_i cos(x_i, y_i)                           as MUSE does (Conneau et al., 2018)
    structural    −Σ_j (log σ_j(X) − log σ_j(Y))²                 σ_j: singular values, in their order

The second is the singular value gap of Dubossarsky et al. (2020), with its sign changed: of both more is better. They
are functions of two matrices alone, so that any training can use them: rows are words, or occurrences of words.

Where lengths count, as in a world of two dimensions, near is what is at a small distance: CSLS is then of −‖x − y‖²,
and the semantic criterion 1 − Σ_i ‖x_i − y_i‖² / Σ_i (‖x_i‖² + ‖y_i‖²), the mean cosine for vectors of length 1.

Shapes: N and M words, P pairs, D width, E = D + 2.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from babelray.errors import DataError, TrainingError
from babelray.mapping.induction import induce

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from babelray.mapping.config import EpochsConfig
    from babelray.mapping.induction import Direction
    from babelray.mapping.linear import Dictionary
    from babelray.mapping.methods import Normalise, Similarity

    Advance = Callable[[int, float], None]

FLOOR = 1e-6
"""Singular values below this share of the largest are taken for it: their logarithms are noise."""


def nearness(how: Normalise) -> Similarity:
    """Lengths count unless all are 1."""
    return "cosine" if how == "unit" else "distance"


def comparable(x_ND: Tensor, y_MD: Tensor, similarity: Similarity = "cosine") -> tuple[Tensor, Tensor]:
    """Vectors whose products are the similarities: cosines, or −‖x − y‖² = (√2 x, −‖x‖², 1) · (√2 y, 1, −‖y‖²)."""
    if similarity == "cosine":
        return functional.normalize(x_ND), functional.normalize(y_MD)
    x_N1, y_M1 = (side.square().sum(1, keepdim=True) for side in (x_ND, y_MD))
    x_NE = torch.cat([math.sqrt(2) * x_ND, -x_N1, torch.ones_like(x_N1)], 1)
    y_ME = torch.cat([math.sqrt(2) * y_MD, torch.ones_like(y_M1), -y_M1], 1)
    return x_NE, y_ME


def translations(
    mapped_ND: Tensor,
    target_MD: Tensor,
    csls: int = 10,
    words: int = 10_000,
    pairs: int = 30_000,
    similarity: Similarity = "cosine",
    direction: Direction = "forward",
) -> Dictionary:
    """The most confident translations by CSLS among the first words of each side, best first."""
    sides = comparable(mapped_ND[:words], target_MD[:words], similarity)
    found = induce(*sides, csls=csls, direction=direction)
    best_P = found.confidence_P.argsort(descending=True, stable=True)[:pairs]
    return found.source_P[best_P], found.target_P[best_P]


def semantic(
    mapped_ND: Tensor,
    target_MD: Tensor,
    csls: int = 10,
    words: int = 10_000,
    pairs: int = 30_000,
    similarity: Similarity = "cosine",
) -> float:
    """How near the most confident translations are."""
    rows_P, columns_P = translations(mapped_ND, target_MD, csls, words, pairs, similarity)
    x_PD, y_PD = mapped_ND[rows_P], target_MD[columns_P]
    if similarity == "cosine":
        return functional.cosine_similarity(x_PD, y_PD).mean().item()
    return 1 - ((x_PD - y_PD).square().sum() / (x_PD.square().sum() + y_PD.square().sum())).item()


def structural(
    mapped_ND: Tensor,
    target_MD: Tensor,
    csls: int = 10,
    words: int = 10_000,
    pairs: int = 30_000,
    similarity: Similarity = "cosine",
) -> float:
    """How alike the spectra of the most confident translations are; 0 is best."""
    rows_P, columns_P = translations(mapped_ND, target_MD, csls, words, pairs, similarity)
    x_D, y_D = (log_singular_values(side) for side in (mapped_ND[rows_P], target_MD[columns_P]))
    return -(x_D - y_D).square().sum().item()


def log_singular_values(x_PD: Tensor) -> Tensor:
    """Those of a matrix, largest first, in double precision."""
    values_D = torch.linalg.svdvals(x_PD.double())
    return values_D.clamp(min=FLOOR * values_D[0]).log()


def precision(x_PD: Tensor, y_PD: Tensor, csls: int = 10, similarity: Similarity = "cosine") -> float:
    """Validation data as a criterion: the share of pairs whose words find each other among all of the pairs."""
    found_P = induce(*comparable(x_PD, y_PD, similarity), csls=csls, direction="forward").target_P
    return (y_PD[found_P] == y_PD).all(1).float().mean().item()


def held_back(
    dictionary: Dictionary, config: EpochsConfig, generator: torch.Generator
) -> tuple[Dictionary, Dictionary]:
    """Pairs to learn from and pairs to validate with; all and none unless the config selects by them."""
    order_P = torch.randperm(len(dictionary[0]), generator=generator)
    count = math.ceil(len(order_P) * config.held_back) if config.select == "validation" else 0
    back_P, kept_P = order_P[:count], order_P[count:]
    return (dictionary[0][kept_P], dictionary[1][kept_P]), (dictionary[0][back_P], dictionary[1][back_P])


def judge(
    network: Callable[[Tensor], Tensor],
    x_ND: Tensor,
    y_MD: Tensor,
    config: EpochsConfig,
    similarity: Similarity,
    validation: Dictionary | None,
) -> Callable[[int], float]:
    """A function of the epoch's number that says how good the network is now, by the criterion of the config."""

    def value(epoch: int) -> float:
        if config.select == "last":
            return float(epoch)
        with torch.no_grad():
            if config.select == "validation":
                assert validation is not None  # a config that selects by it held it back
                return precision(network(x_ND[validation[0]]), y_MD[validation[1]], config.csls, similarity)
            measure = semantic if config.select == "semantic" else structural
            mapped_ND = network(x_ND[: config.criterion_words])
            return measure(mapped_ND, y_MD, config.csls, config.criterion_words, config.criterion_pairs, similarity)

    return value


def best_epoch(
    network: nn.Module,
    epochs: int,
    train: Callable[[], float],
    value_of: Callable[[int], float],
    advance: Advance = lambda epoch, value: None,
) -> None:
    """Train for some epochs and leave the network as it was after the best one.

    `train` does one epoch and gives its loss. A loss, weight or value that is not finite ends the training: what was
    best before is kept, and if there is nothing yet, that is an error.
    """
    best, kept = -math.inf, None
    for epoch in range(1, epochs + 1):
        loss = train()
        if not (math.isfinite(loss) and all(part.isfinite().all() for part in network.state_dict().values())):
            break
        value = value_of(epoch)
        if not math.isfinite(value):
            break
        advance(epoch, value)
        if value > best:
            best, kept = value, copy.deepcopy(network.state_dict())
    if kept is None:
        raise TrainingError(
            "the mapping diverged in its first epoch: a loss or a weight is not a number",
            "Lower `learning_rate`, or set a larger `batch`.",
        )
    network.load_state_dict(kept)


def check_trainable(x_ND: Tensor, y_MD: Tensor, rows: int, what: str) -> None:
    """Raise an error where no network can learn: too few rows for the width, or vectors that are all the same."""
    width = x_ND.shape[1]
    if width < 2:
        raise DataError("the vectors have one dimension", "Use vectors of two or more.")
    for side, vectors_ND in (("source", x_ND), ("target", y_MD)):
        if (vectors_ND == vectors_ND[0]).all():
            raise DataError(f"{side}: all vectors are the same", "Make the vectors again.")
    if rows < width:
        raise DataError(
            f"{rows} {what} are fewer than the {width} dimensions of the vectors",
            "Give more, or use a method that needs fewer, as procrustes does.",
        )
