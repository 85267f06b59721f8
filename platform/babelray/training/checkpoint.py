"""Checkpoints as safetensors: every worker writes the parts that it owns, and any number of workers reads them.

A checkpoint is a folder with `shard-<rank>.safetensors` of every worker and `state.json`. A shard holds float32 weights
and Adam's moments, partitioned as by DeepSpeed's ZeRO stage: `exp_avg/<name>/<start>` is a piece of the flattened
parameter from that position on. So a checkpoint of two workers under ZeRO 2 loads on four under ZeRO 3, or becomes an
encoder without DeepSpeed, and nothing is pickled. The data of a step depend on its number alone, so no state of data
streams or random generators is stored.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from babelray.errors import TrainingError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

STATE = "state.json"
WEIGHT = "weight"
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Fragment:
    """A piece of a parameter, whose float32 weights and moments this worker updates."""

    name: str
    start: int
    """Its first position in the flattened parameter."""
    flat: Tensor
    """The optimizer's tensor that holds it, possibly with other pieces …"""
    offset: int
    """… and its first position in that tensor."""
    count: int

    def view(self, tensor: Tensor) -> Tensor:
        """Its part of the optimizer's tensor, or of a moment of it."""
        return tensor.detach().view(-1)[self.offset : self.offset + self.count]


def fragments(engine: Any) -> Iterator[Fragment]:
    """The pieces of every parameter that this worker owns, whatever the ZeRO stage (DeepSpeed 0.19's own names)."""
    stage = engine.zero_optimization_stage()
    for name, parameter in engine.module.model.named_parameters():
        if not parameter.requires_grad:
            continue
        if stage == 0:
            yield Fragment(name, 0, parameter, 0, parameter.numel())
        elif stage == 3:
            optimizer = engine.optimizer
            group, offset, count = optimizer.grad_position[optimizer.get_param_id(parameter)]
            start = torch.distributed.get_rank() * parameter.partition_numel()
            count = min(count, parameter.ds_numel - start)
            if count > 0:
                yield Fragment(name, start, optimizer.fp32_partitioned_groups_flat[group], offset, count)
        elif parameter._hp_mapping is not None:
            mapping = parameter._hp_mapping
            flat = engine.optimizer.single_partition_of_fp32_groups[mapping.param_group_index]
            address = mapping.hp_fragment_address
            yield Fragment(name, mapping.lp_fragment_address.start, flat, address.start, address.numel)


def snapshot(engine: Any, rank: int, workers: int) -> dict[str, Tensor]:
    """A copy in main memory of the tensors that this worker writes; training may continue at once."""
    optimizer = _adam(engine)
    replicated = engine.zero_optimization_stage() == 0
    tensors = {}
    for number, piece in enumerate(fragments(engine)):
        if replicated and number % workers != rank:
            continue
        kinds = {WEIGHT: piece.flat, **{kind: optimizer.state[piece.flat][kind] for kind in MOMENTS}}
        for kind, tensor in kinds.items():
            tensors[f"{kind}/{piece.name}/{piece.start}"] = piece.view(tensor).to("cpu", copy=True)
    return tensors


def write(folder: Path, rank: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write this worker's part of a checkpoint; the first worker also writes the state."""
    from safetensors.torch import save_file

    save_file(tensors, folder / f"shard-{rank:05d}.safetensors")
    if rank == 0:
        (folder / STATE).write_text(json.dumps(state), encoding="utf-8")


class Checkpoint:
    """A checkpoint in a local folder."""

    def __init__(self, folder: str | Path) -> None:
        from safetensors import SafetensorError, safe_open

        self.folder = Path(folder)
        self._pieces: dict[str, list[tuple[int, int, Any, str]]] = defaultdict(list)
        try:
            self.state: dict[str, Any] = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
            for number in range(self.state["workers"]):
                file = safe_open(self.folder / f"shard-{number:05d}.safetensors", framework="pt")
                for key in file.keys():  # noqa: SIM118 (not a dictionary)
                    name, _, start = key.rpartition("/")
                    (count,) = file.get_slice(key).get_shape()
                    self._pieces[name].append((int(start), count, file, key))
        except (OSError, KeyError, ValueError, SafetensorError) as error:
            raise TrainingError(
                f"the checkpoint in {self.folder} is damaged: {error}", "Run again with --force for this stage."
            ) from error

    def read(self, kind: str, name: str, start: int, count: int) -> Tensor:
        """Values of a flattened parameter, from all shards that hold some."""
        result = torch.empty(count)
        filled = 0
        for begin, length, file, key in self._pieces[f"{kind}/{name}"]:
            first, last = max(start, begin), min(start + count, begin + length)
            if first < last:
                result[first - start : last - start] = file.get_slice(key)[first - begin : last - begin]
                filled += last - first
        if filled != count:
            raise TrainingError(
                f"the checkpoint in {self.folder} lacks a part of {name}", "Run again with --force for this stage."
            )
        return result

    def load_weights(self, model: PreTrainedModel) -> None:
        """Load the weights into a model that DeepSpeed has not wrapped."""
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(self.read(WEIGHT, name, 0, parameter.numel()).view_as(parameter))

    def load_optimizer(self, engine: Any) -> None:
        """Load float32 weights and Adam's state into an engine whose model was loaded by `load_weights`."""
        optimizer = _adam(engine)
        with torch.no_grad():
            for piece in fragments(engine):
                moments = optimizer.state[piece.flat]
                if not moments:
                    moments["step"] = torch.tensor(float(self.state["updates"]))
                    moments |= {kind: torch.zeros_like(piece.flat) for kind in MOMENTS}
                for kind in (WEIGHT, *MOMENTS):
                    values = self.read(kind, piece.name, piece.start, piece.count)
                    piece.view(piece.flat if kind == WEIGHT else moments[kind]).copy_(values)
        scaler = getattr(engine.optimizer, "loss_scaler", None)
        for name, value in self.state["loss_scale"].items():
            setattr(scaler, name, value)


def engine_state(engine: Any) -> dict[str, Any]:
    """What `load_optimizer` needs besides tensors: Adam's number of updates, and the loss scale of fp16."""
    states = _adam(engine).state.values()
    scaler = vars(getattr(engine.optimizer, "loss_scaler", object)) if engine.fp16_enabled() else {}
    scale = {name: value for name, value in scaler.items() if isinstance(value, int | float)}
    return {"updates": max((int(state["step"]) for state in states if state), default=0), "loss_scale": scale}


def _adam(engine: Any) -> torch.optim.Optimizer:
    """The optimizer inside DeepSpeed's."""
    return engine.optimizer.optimizer if engine.zero_optimization_stage() else engine.optimizer
