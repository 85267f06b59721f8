"""All objectives on one model: the parts of a step, and losses that are of a whole step.

A step's loss is  Σ_o w_o · (mean of o's terms over the whole step),  whatever the number of workers and of accumulated
parts. DeepSpeed averages gradients over both, so a part's loss is its sum of terms times parts / (terms of the step).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import distributed, nn

from babelray.objectives.objective import Batch, Objective, WholeObjective

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass
class StepData:
    """The tensors of one worker's share of a step: its parts, and what losses of the whole step need besides."""

    step: int
    parts: list[dict[str, Batch]]
    whole: dict[str, Batch]
    tokens: int

    def to(self, device: torch.device) -> StepData:
        parts = [{label: _to(batch, device) for label, batch in part.items()} for part in self.parts]
        return StepData(
            self.step, parts, {label: _to(batch, device) for label, batch in self.whole.items()}, self.tokens
        )


def _to(batch: Batch, device: torch.device) -> Batch:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


@dataclass
class Group:
    """This worker among the others."""

    rank: int = 0
    count: int = 1

    def sum(self, tensor: Tensor) -> Tensor:
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor

    def gather(self, tensor_B: Tensor) -> Tensor:
        """The tensors of all workers in a row; only this worker's own carries a gradient."""
        if self.count == 1:
            return tensor_B
        shares = [torch.empty_like(tensor_B) for _ in range(self.count)]
        distributed.all_gather(shares, tensor_B.detach().contiguous())
        shares[self.rank] = tensor_B
        return torch.cat(shares)


class Mixture(nn.Module):
    """The objectives' losses on one model, in one forward pass, so that every ZeRO stage sees one call a part."""

    def __init__(
        self, model: PreTrainedModel, objectives: list[Objective], group: Group, accumulate: int, seed: int
    ) -> None:
        super().__init__()
        self.model = model
        self.objectives = {objective.label: objective for objective in objectives}
        self.group = group
        self.accumulate = accumulate
        self.seed = seed
        self.languages = objectives[0].materials.languages

    def draw(self, step: int, done: float) -> StepData:
        """This worker's share of a step; objectives that weigh nothing then are left out."""
        active = {label: o for label, o in self.objectives.items() if o.weight_at(done) > 0}
        count = self.group.count * self.accumulate
        parts = [
            {label: o.batch(step, i * self.group.count + self.group.rank, count) for label, o in active.items()}
            for i in range(self.accumulate)
        ]
        whole = {label: o.whole(step) for label, o in active.items() if isinstance(o, WholeObjective)}
        masks = (
            tensor for part in parts for batch in part.values() for name, tensor in batch.items() if "mask" in name
        )
        return StepData(step, parts, whole, sum(int(mask.sum()) for mask in masks))

    def renews(self, step: int) -> bool:
        return any(objective.renews(step) for objective in self.objectives.values())

    @torch.no_grad()
    def renew(self, step: int, device: torch.device) -> None:
        """Objectives that look at the encoder again before a step do so."""
        self.model.eval()
        for objective in self.objectives.values():
            if objective.renews(step):
                objective.renew(self.model, device)
        self.model.train()

    @property
    def state(self) -> dict[str, Any]:
        """What objectives have seen that a resumed run could not see again."""
        found = {label: objective.state for label, objective in self.objectives.items()}
        return {label: state for label, state in found.items() if state is not None}

    def counts(self, data: StepData) -> Tensor:
        """How many terms each objective has in the whole step, by language (O, L)."""
        counts_OL = torch.zeros(len(self.objectives), len(self.languages), dtype=torch.float64)
        for part in data.parts:
            for row, label in enumerate(self.objectives):
                if label in part:
                    counts_OL[row] += torch.bincount(part[label]["language"].cpu(), minlength=len(self.languages))
        return self.group.sum(counts_OL.to(_device(data)))

    def seed_for(self, label: str, step: int, part: int) -> None:
        """Dropout depends on where we are, not on how we came there."""
        numbers = [self.seed, zlib.crc32(label.encode()), step, part, self.group.rank]
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1))

    def forward(
        self,
        data: StepData,
        number: int,
        weights: Mapping[str, float],
        counts_OL: Tensor,
        cached: Mapping[str, Cached] | None = None,
        only: str | None = None,
    ) -> Any:
        """The loss of a part, and the sums of its terms by objective and language (O, L).

        With `only`, no loss but the vectors of one objective's examples.
        """
        part = data.parts[number]
        if only is not None:
            self.seed_for(only, data.step, number)
            return self._whole(only).vectors(self.model, part[only])
        parts = self.group.count * self.accumulate
        losses = []
        sums_OL = torch.zeros_like(counts_OL)
        for row, (label, objective) in enumerate(self.objectives.items()):
            if label not in part:
                continue
            self.seed_for(label, data.step, number)
            if isinstance(objective, WholeObjective):
                vectors_BD = objective.vectors(self.model, part[label])
                if cached:
                    loss = (vectors_BD.float() * cached[label].gradients[number]).sum() * parts
                    terms_B = cached[label].terms[number]
                else:
                    terms_N = objective.whole_terms(self.group.gather(vectors_BD), data.whole[label])
                    loss = terms_N.mean() * parts
                    terms_B = terms_N.chunk(self.group.count)[self.group.rank]
            else:
                terms_B = objective.terms(self.model, part[label])
                loss = terms_B.sum() * (parts / counts_OL[row].sum()).to(terms_B.dtype)
            losses.append(weights[label] * loss)
            sums_OL[row].index_add_(0, part[label]["language"], terms_B.detach().to(sums_OL.dtype))
        return torch.stack(losses).sum(), sums_OL

    def _whole(self, label: str) -> WholeObjective:
        objective = self.objectives[label]
        assert isinstance(objective, WholeObjective)
        return objective

    def cache(self, data: StepData, forward: Any) -> dict[str, Cached]:
        """Gradients of whole-step losses by the vectors of each part (Gao et al., 2021).

        The encoder runs part by part without keeping anything; the loss of all vectors together gives the gradient of
        each; the second pass, part by part again, only carries it on into the encoder.
        """
        found = {}
        for label in data.whole:
            with torch.no_grad():
                shares = [forward(data, number, {}, None, only=label).float() for number in range(self.accumulate)]
            vectors_ND = torch.cat([self.group.gather(share) for share in shares]).requires_grad_()
            terms_N = self._whole(label).whole_terms(vectors_ND, data.whole[label])
            (gradient_ND,) = torch.autograd.grad(terms_N.mean(), vectors_ND)
            own = slice(self.group.rank, None, self.group.count)
            parts = self.group.count * self.accumulate
            found[label] = Cached(gradient_ND.chunk(parts)[own], terms_N.detach().chunk(parts)[own])
        return found


@dataclass(frozen=True)
class Cached:
    """Of each of this worker's parts: the gradient of the loss by its vectors, and its terms."""

    gradients: tuple[Tensor, ...]
    terms: tuple[Tensor, ...]


def _device(data: StepData) -> torch.device:
    return next(iter(next(iter(data.parts[0].values())).values())).device
