"""Fine-tuning: training an encoder, with or without a head, on one objective, in this process.

It uses the steps and the engine of the training loop, so precision, accumulation and other options work as there.
DeepSpeed needs a process group; this process becomes one by itself, without a network port.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import distributed

from babelray.errors import TrainingError
from babelray.training.engine import import_deepspeed, start_engine
from babelray.training.loop import steps, update
from babelray.training.mixture import Group, Mixture

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from babelray.objectives.objective import Objective
    from babelray.training.config import OptimizationConfig

SINGLE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
"""Variables that DeepSpeed reads from the environment, whatever the process group."""


def fine_tune(
    model: PreTrainedModel,
    objective: Objective,
    config: OptimizationConfig,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Train the model in place, on a GPU if there is one; return the loss of each step.

    Sampling and dropout depend on the seed of the objective's training data. `on_progress` receives the number of
    completed steps and of all steps. Afterwards the model is in float32 and in evaluation mode. There is one worker,
    whatever the config says, so ZeRO 3 becomes ZeRO 2.
    """
    config = _for_one_process(config, objective)
    mixture = Mixture(model.train(), [objective], Group(), config.accumulate, objective.training_data.seed)
    losses = []
    with _single_process_group():
        engine = start_engine(mixture, config)
        objective.start(engine.device)
        for data, _ in steps(mixture, config, engine.device):
            sums_OL, counts_OL, _ = update(engine, mixture, data.to(engine.device), config)
            losses.append(float(sums_OL.sum() / counts_OL.sum().clamp(min=1)))
            if not math.isfinite(losses[-1]):
                problem = f"the loss of fine-tuning is {losses[-1]} at step {data.step}"
                raise TrainingError(problem, f"Lower learning_rate, which is {config.learning_rate}.")
            if on_progress is not None:
                on_progress(data.step + 1, config.steps)
        engine.destroy()
    model.float().eval()
    return losses


def _for_one_process(config: OptimizationConfig, objective: Objective) -> OptimizationConfig:
    """The config with the number of steps of its epochs, for this process alone."""
    config = config.for_examples(objective.count)
    if config.offload == "all":
        raise TrainingError("offload: all needs ZeRO 3, which needs several workers", "Use offload: optimizer.")
    return config.model_copy(update={"workers": 1, "zero_stage": min(config.zero_stage, 2)})


@contextlib.contextmanager
def _single_process_group() -> Iterator[None]:
    """Make this process a group of its own, unless it is one already."""
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        problem = f"fine-tuning runs in one process, and this one belongs to a group of {distributed.get_world_size()}"
        raise TrainingError(problem, "Call it outside of distributed training.")
    before = {name: os.environ.get(name) for name in SINGLE_PROCESS}
    os.environ.update(SINGLE_PROCESS)
    created = not distributed.is_initialized()
    if created:
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if created:
            _destroy_group()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _destroy_group() -> None:
    """Destroy the group, also in DeepSpeed, which would take the next one for it."""
    deepspeed = import_deepspeed()
    if deepspeed.comm.is_initialized():
        deepspeed.comm.destroy_process_group()
    else:  # DeepSpeed has not used it
        distributed.destroy_process_group()
