"""Fine-tuning: an encoder, with a head if it has one, is trained on one objective, in this process.

The loop's own steps and engine do it, so that precision, accumulation and the like are those of every other training.
DeepSpeed asks for a group of processes; this one alone is made one, without a port that others could want.
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
from babelray.training.config import FineTuningConfig
from babelray.training.engine import import_deepspeed, start_engine
from babelray.training.loop import steps, update
from babelray.training.mixture import Group, Mixture

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from babelray.objectives.objective import Objective
    from babelray.training.config import OptimizationConfig

ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
"""What DeepSpeed reads from the environment, whatever group there is."""


def fine_tune(
    model: PreTrainedModel,
    objective: Objective,
    config: OptimizationConfig,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Train the model where it stands, on a GPU if there is one; return the loss of each step.

    What is drawn and dropped out depends on the seed of the objective's materials. `progress` is told the steps that
    are done, and of how many. The model is left in float32, ready to be read from. There is one worker, whatever the
    config says, and so nobody to share weights with: ZeRO 3 becomes 2.
    """
    config = _for_one_process(config, objective)
    mixture = Mixture(model.train(), [objective], Group(), config.accumulate, objective.materials.seed)
    losses = []
    with _alone():
        engine = start_engine(mixture, config)
        objective.start(engine.device)
        for data, _ in steps(mixture, config, engine.device):
            sums_OL, counts_OL, _ = update(engine, mixture, data.to(engine.device), config)
            losses.append(float(sums_OL.sum() / counts_OL.sum().clamp(min=1)))
            if not math.isfinite(losses[-1]):
                problem = f"the loss of fine-tuning is {losses[-1]} at step {data.step}"
                raise TrainingError(problem, f"Lower learning_rate, which is {config.learning_rate}.")
            if progress is not None:
                progress(data.step + 1, config.steps)
        engine.destroy()
    model.float().eval()
    return losses


def _for_one_process(config: OptimizationConfig, objective: Objective) -> OptimizationConfig:
    """The config with the steps that its epochs take, for this process alone."""
    if isinstance(config, FineTuningConfig):
        config = config.for_examples(objective.count)
    if config.offload == "all":
        raise TrainingError("offload: all needs ZeRO 3, which one process cannot do", "Use offload: optimizer.")
    return config.model_copy(update={"workers": 1, "zero_stage": min(config.zero_stage, 2)})


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """This process as a group of its own, unless it is one already."""
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        problem = f"fine-tuning runs in one process, and this one works with {distributed.get_world_size() - 1} others"
        raise TrainingError(problem, "Call it outside of a training.")
    before = {name: os.environ.get(name) for name in ALONE}
    os.environ.update(ALONE)
    made = not distributed.is_initialized()
    if made:
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if made:
            _leave()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _leave() -> None:
    """Take the group down, also what DeepSpeed remembers of it: the next one would be taken for it."""
    deepspeed = import_deepspeed()
    if deepspeed.comm.is_initialized():
        deepspeed.comm.destroy_process_group()
    else:  # DeepSpeed never came to use it
        distributed.destroy_process_group()
