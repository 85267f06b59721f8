"""Mappings that are trained by epochs: their shared settings, an epoch, and the choice of the best one.

Shapes: N and M words, P pairs, B batch, D width.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from babelray.errors import DataError, TrainingError
from babelray.mapping.method import MappingMethod, OnProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor, nn

    from babelray.mapping.linear import Dictionary
    from babelray.mapping.method import Similarity


class EpochsConfig(MappingMethod):
    """A network that is trained: for how long, and which epoch is kept."""

    linear = False

    epochs: int = Field(20, ge=1)
    batch_size: int = Field(32, ge=1)
    """Pairs in a step, or words of each language where there are no pairs."""
    learning_rate: float = Field(1e-4, gt=0)
    select: Literal["semantic", "structural", "validation", "last"] = "semantic"
    """The epoch that is kept: the best by the `semantic` or the `structural` criterion, which need no translations; the
    best on held-out pairs (`validation`); or the `last`."""
    held_out: float = Field(0.1, gt=0, lt=1)
    """Share of the pairs that `validation` holds out."""
    criterion_words: int = Field(10_000, ge=2)
    """Frequent words of each side that the criteria use."""
    criterion_pairs: int = Field(30_000, ge=1)
    """The most confident of their translations, which the criteria score."""
    csls: int = Field(10, ge=0)

    @property
    def compared_words(self) -> int:
        return self.criterion_words

    def with_equal_steps(self, rows: int, most_rows: int) -> Self:
        steps, most_steps = (math.ceil(count / self.batch_size) for count in (rows, most_rows))
        return self.model_copy(update={"epochs": round(self.epochs * most_steps / steps)})


def split_held_out(
    dictionary: Dictionary, config: EpochsConfig, generator: torch.Generator
) -> tuple[Dictionary, Dictionary]:
    """Pairs to learn from and pairs to validate with; all and none unless the config selects by them."""
    import torch

    order_P = torch.randperm(len(dictionary[0]), generator=generator)
    count = math.ceil(len(order_P) * config.held_out) if config.select == "validation" else 0
    held_out_P, training_P = order_P[:count], order_P[count:]
    rows_P, columns_P = dictionary
    return (rows_P[training_P], columns_P[training_P]), (rows_P[held_out_P], columns_P[held_out_P])


def epoch_scorer(
    network: Callable[[Tensor], Tensor],
    x_ND: Tensor,
    y_MD: Tensor,
    config: EpochsConfig,
    similarity: Similarity,
    validation: Dictionary | None,
) -> Callable[[int], float]:
    """A function of the epoch's number that gives the present value of the network by the criterion of the config."""
    import torch

    from babelray.mapping.criteria import precision, semantic, structural

    def value(epoch: int) -> float:
        if config.select == "last":
            return float(epoch)
        with torch.no_grad():
            if config.select == "validation":
                assert validation is not None  # a config that selects by it holds it out
                return precision(network(x_ND[validation[0]]), y_MD[validation[1]], config.csls, similarity)
            criterion = semantic if config.select == "semantic" else structural
            mapped_ND = network(x_ND[: config.criterion_words])
            return criterion(mapped_ND, y_MD, config.csls, config.criterion_words, config.criterion_pairs, similarity)

    return value


def best_epoch(
    network: nn.Module,
    epochs: int,
    train: Callable[[], float],
    value_of: Callable[[int], float],
    on_progress: OnProgress = lambda epoch, value: None,
) -> None:
    """Train for some epochs and give the network the weights of the best one.

    `train` runs one epoch and returns its loss. A loss, weight or value that is not finite ends the training: the best
    epoch before it is kept; in the first epoch it is an error.
    """
    best, weights = -math.inf, None
    for epoch in range(1, epochs + 1):
        loss = train()
        if not (math.isfinite(loss) and all(weight.isfinite().all() for weight in network.state_dict().values())):
            break
        value = value_of(epoch)
        if not math.isfinite(value):
            break
        on_progress(epoch, value)
        if value > best:
            best, weights = value, copy.deepcopy(network.state_dict())
    if weights is None:
        raise TrainingError(
            "the mapping diverged in its first epoch: a loss or a weight is not a number",
            "Lower `learning_rate`, or set a larger `batch_size`.",
        )
    network.load_state_dict(weights)


def train_epoch(
    loss_of: Callable[[Tensor, Tensor], Tensor],
    x_PD: Tensor,
    y_PD: Tensor,
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> float:
    """One epoch over all pairs in a new order: the mean loss, or the first that is not finite, which ends it."""
    import torch

    total = 0.0
    for rows_B in torch.randperm(len(x_PD), generator=generator).split(batch_size):
        loss = loss_of(x_PD[rows_B], y_PD[rows_B])
        if not math.isfinite(loss.item()):
            return loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows_B)
    return total / len(x_PD)


def train_on_pairs(
    network: nn.Module,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    sides: tuple[Tensor, Tensor],
    pairs: tuple[Dictionary, Dictionary],
    config: EpochsConfig,
    generator: torch.Generator,
    on_progress: OnProgress,
) -> None:
    """Train a network from one side to the other on training pairs; the second of `pairs` are held out."""
    from babelray.mapping.criteria import similarity_for

    (x_ND, y_MD), (training, validation) = sides, pairs
    x_PD, y_PD = x_ND[training[0]], y_MD[training[1]]
    best_epoch(
        network,
        config.epochs,
        lambda: train_epoch(loss_of, x_PD, y_PD, config.batch_size, optimizer, generator),
        epoch_scorer(network, x_ND, y_MD, config, similarity_for(config.normalise), validation),
        on_progress,
    )


def check_trainable(x_ND: Tensor, y_MD: Tensor, rows: int, noun: str) -> None:
    """Raise an error where no network can learn: too few rows for the width, or vectors that are all the same."""
    width = x_ND.shape[1]
    if width < 2:
        raise DataError("the vectors have one dimension", "Use vectors of two or more.")
    for side, vectors_ND in (("source", x_ND), ("target", y_MD)):
        if (vectors_ND == vectors_ND[0]).all():
            raise DataError(f"{side}: all vectors are the same", "Make the vectors again.")
    if rows < width:
        raise DataError(
            f"{rows} {noun} are fewer than the {width} dimensions of the vectors",
            "Give more, or use a method that needs fewer, such as procrustes.",
        )
