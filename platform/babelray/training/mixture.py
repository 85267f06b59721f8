"""All objectives on one model: the parts of a step, and losses that are functions of a whole step.

The loss of a step is  Σ_o w_o · (mean of o's terms over the whole step),  whatever the number of workers and of
accumulated parts. DeepSpeed averages gradients over both, so the loss of a part is its sum of terms times
parts / (terms of the step).

Shapes: O objectives, L languages, N examples of a step, B of a part.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import distributed, nn

from babelray.objectives.objective import Batch, GlobalObjective, Objective

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Computed = TypeVar("Computed")


@dataclass
class StepData:
    """The tensors of one worker's share of a step: its parts, and further ones for losses of the whole step."""

    step: int
    parts: list[dict[str, Batch]]
    global_context: dict[str, Batch]
    tokens: int

    def to(self, device: torch.device) -> StepData:
        parts = [{label: _to(batch, device) for label, batch in part.items()} for part in self.parts]
        global_context = {label: _to(batch, device) for label, batch in self.global_context.items()}
        return StepData(self.step, parts, global_context, self.tokens)


def _to(batch: Batch, device: torch.device) -> Batch:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


@dataclass
class Group:
    """This worker among all workers."""

    rank: int = 0
    count: int = 1

    def sum(self, tensor: Tensor) -> Tensor:
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor

    def gather(self, tensor_B: Tensor) -> Tensor:
        """The concatenated tensors of all workers; only this worker's own has a gradient."""
        if self.count == 1:
            return tensor_B
        shares = [torch.empty_like(tensor_B) for _ in range(self.count)]
        distributed.all_gather(shares, tensor_B.detach().contiguous())
        shares[self.rank] = tensor_B
        return torch.cat(shares)


@dataclass(frozen=True)
class CachedGradients:
    """For each of this worker's parts: the gradient of the loss with respect to its vectors, and its terms."""

    gradients: tuple[Tensor, ...]
    loss_terms: tuple[Tensor, ...]


class Mixture(nn.Module):
    """The objectives' losses on one model, in one forward pass per part under every ZeRO stage."""

    def __init__(
        self, model: PreTrainedModel, objectives: list[Objective], group: Group, accumulate: int, seed: int
    ) -> None:
        super().__init__()
        self.model = model
        self.objectives = {objective.label: objective for objective in objectives}
        self.group = group
        self.accumulate = accumulate
        self.seed = seed
        self.languages = objectives[0].training_data.languages

    @property
    def part_count(self) -> int:
        """The number of parts of a step, over all workers."""
        return self.group.count * self.accumulate

    def draw(self, step: int, completed: float) -> StepData:
        """This worker's share of a step, without objectives whose weight is 0 then."""
        active = {label: o for label, o in self.objectives.items() if o.weight_at(completed) > 0}
        own = range(self.group.rank, self.part_count, self.group.count)
        parts = [{label: o.batch(step, part, self.part_count) for label, o in active.items()} for part in own]
        global_context = {
            label: o.global_context(step) for label, o in active.items() if isinstance(o, GlobalObjective)
        }
        masks = (
            tensor for part in parts for batch in part.values() for name, tensor in batch.items() if "mask" in name
        )
        return StepData(step, parts, global_context, sum(int(mask.sum()) for mask in masks))

    def needs_refresh(self, step: int) -> bool:
        return any(objective.needs_refresh(step) for objective in self.objectives.values())

    @torch.no_grad()
    def refresh(self, step: int, device: torch.device) -> None:
        """Refresh the objectives that need it before a step."""
        self.model.eval()
        for objective in self.objectives.values():
            if objective.needs_refresh(step):
                objective.refresh(self.model, device)
        self.model.train()

    @property
    def state(self) -> dict[str, Any]:
        """The states of the objectives that have one, for a checkpoint."""
        states = {label: objective.state for label, objective in self.objectives.items()}
        return {label: state for label, state in states.items() if state is not None}

    def counts(self, data: StepData) -> Tensor:
        """The number of terms of each objective in the whole step, by language (O, L)."""
        counts_OL = torch.zeros(len(self.objectives), len(self.languages), dtype=torch.float64)
        for part in data.parts:
            for row, label in enumerate(self.objectives):
                if label in part:
                    counts_OL[row] += torch.bincount(part[label]["language"].cpu(), minlength=len(self.languages))
        return self.group.sum(counts_OL.to(_device(data)))

    def seed_for(self, label: str, step: int, part: int) -> None:
        """Seed dropout by objective, step, part and worker, so that a resumed run has the same."""
        numbers = [self.seed, zlib.crc32(label.encode()), step, part, self.group.rank]
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1))

    def forward(self, compute: Callable[[], Computed]) -> Computed:
        """Run a computation on the model. DeepSpeed's hooks are on `forward`, so `losses` and `vectors` are called by
        `engine(partial(mixture.losses, …))`.
        """
        return compute()

    def losses(
        self,
        data: StepData,
        part: int,
        weights: Mapping[str, float],
        counts_OL: Tensor,
        cached: Mapping[str, CachedGradients] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The weighted loss of a part, and the sums of its terms by objective and language (O, L)."""
        losses = []
        sums_OL = torch.zeros_like(counts_OL)
        for row, (label, objective) in enumerate(self.objectives.items()):
            batch = data.parts[part].get(label)
            if batch is None:
                continue
            self.seed_for(label, data.step, part)
            if isinstance(objective, GlobalObjective):
                loss, terms_B = self._global_loss(objective, data, part, cached)
            else:
                terms_B = objective.loss_terms(self.model, batch)
                loss = terms_B.sum() * (self.part_count / counts_OL[row].sum()).to(terms_B.dtype)
            losses.append(weights[label] * loss)
            sums_OL[row].index_add_(0, batch["language"], terms_B.detach().to(sums_OL.dtype))
        return torch.stack(losses).sum(), sums_OL

    def _global_loss(
        self,
        objective: GlobalObjective,
        data: StepData,
        part: int,
        cached: Mapping[str, CachedGradients] | None,
    ) -> tuple[Tensor, Tensor]:
        """The loss of a part of an objective on the whole step, and the part's terms (B,)."""
        label = objective.label
        vectors_BD = objective.vectors(self.model, data.parts[part][label])
        if cached:
            loss = (vectors_BD.float() * cached[label].gradients[part]).sum() * self.part_count
            return loss, cached[label].loss_terms[part]
        terms_N = objective.global_terms(self.group.gather(vectors_BD), data.global_context[label])
        return terms_N.mean() * self.part_count, terms_N.chunk(self.group.count)[self.group.rank]

    def vectors(self, data: StepData, part: int, label: str) -> Tensor:
        """The vectors of a part's examples, of an objective on the whole step."""
        self.seed_for(label, data.step, part)
        return self._global_objective(label).vectors(self.model, data.parts[part][label])

    def _global_objective(self, label: str) -> GlobalObjective:
        objective = self.objectives[label]
        assert isinstance(objective, GlobalObjective)
        return objective

    def cache_gradients(self, data: StepData, engine: Callable[..., Any]) -> dict[str, CachedGradients]:
        """Gradients of losses of the whole step with respect to the vectors of each part (Gao et al., 2021).

        The encoder first reads part by part without storing activations; the loss of all vectors together gives the
        gradient of each; the second pass, part by part again, propagates it into the encoder.
        """
        cached = {}
        for label in data.global_context:
            with torch.no_grad():
                shares = [engine(partial(self.vectors, data, part, label)).float() for part in range(self.accumulate)]
            vectors_ND = torch.cat([self.group.gather(share) for share in shares]).requires_grad_()
            terms_N = self._global_objective(label).global_terms(vectors_ND, data.global_context[label])
            (gradient_ND,) = torch.autograd.grad(terms_N.mean(), vectors_ND)
            own = slice(self.group.rank, None, self.group.count)
            gradients, terms = gradient_ND.chunk(self.part_count), terms_N.detach().chunk(self.part_count)
            cached[label] = CachedGradients(gradients[own], terms[own])
        return cached


def _device(data: StepData) -> torch.device:
    return next(iter(next(iter(data.parts[0].values())).values())).device
