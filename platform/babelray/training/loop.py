"""The training loop that every worker runs: batches, losses, step; reports and checkpoints now and then."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from babelray.encoder.load import load_masked_lm
from babelray.errors import TrainingError
from babelray.objectives.build import build_objective
from babelray.training.engine import Mixture, start_engine
from babelray.training.launch import Worker
from babelray.training.materials import ArtifactMaterials

if TYPE_CHECKING:
    from babelray.training.config import TrainingConfig

EXPORT = "encoder"
_TAG = "engine"


def train(config: TrainingConfig, worker: Worker, materials: ArtifactMaterials) -> None:
    """Train from the last checkpoint, or from the start, to the last step; leave the encoder in the last checkpoint."""
    torch.manual_seed(materials.seed)
    model = load_masked_lm(materials.encoder).train()
    objectives = [build_objective(objective, materials) for objective in config.objectives]
    engine = start_engine(Mixture(model, objectives), config)
    step = _resume(engine, worker)
    worker.progress(step, config.steps, "steps", "")

    while step < config.steps:
        batches = {o.label: _to(o.batch(step), engine.device) for o in objectives}
        total, losses = engine(batches)
        engine.backward(total)
        engine.step()
        step += 1
        worker.progress(step, config.steps, "steps", "")
        if step % config.log_every == 0 or step == config.steps:
            _log(worker, engine, total, losses, step)
        if step % config.checkpoint_every == 0 and step < config.steps:
            _checkpoint(worker, engine, step)

    _checkpoint(worker, engine, step, export=materials)


def _to(batch: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def _log(worker: Worker, engine: Any, total: torch.Tensor, losses: dict[str, torch.Tensor], step: int) -> None:
    """Losses averaged over the workers; a loss that is not a number ends the run."""
    means = torch.stack([total.detach().float(), *(loss.float() for loss in losses.values())])
    if worker.count > 1:
        torch.distributed.all_reduce(means)
        means /= worker.count
    values = dict(zip(("total", *losses), means.tolist(), strict=True))
    worker.metrics(
        step, {f"loss/{name}": value for name, value in values.items()} | {"learning_rate": engine.get_lr()[0]}
    )
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    if bad:
        raise TrainingError(
            f"training diverged: at step {step} the loss of {', '.join(bad)} is not a number",
            "Lower learning_rate or the weight of the objective; the last checkpoint is kept.",
        )


def _checkpoint(worker: Worker, engine: Any, step: int, export: ArtifactMaterials | None = None) -> None:
    """Every worker writes its own part; Ray Train merges them and shows the checkpoint only when it is whole."""
    with tempfile.TemporaryDirectory(prefix="babelray-checkpoint-") as folder:
        engine.save_checkpoint(folder, tag=_TAG, client_state={"step": step})
        if export is not None:
            weights = engine._zero3_consolidated_16bit_state_dict() if engine.zero_optimization_stage() == 3 else None
            if worker.rank == 0:
                model = engine.module.model
                state = {k.removeprefix("model."): v for k, v in weights.items()} if weights else model.state_dict()
                model.save_pretrained(Path(folder) / EXPORT, state_dict=state)
                export.tokenizer.save_pretrained(Path(folder) / EXPORT)
        worker.checkpoint(folder, step)


def _resume(engine: Any, worker: Worker) -> int:
    """Load the last checkpoint of this run, if there is one; return the step it was made at."""
    with worker.last_checkpoint() as folder:
        if folder is None:
            return 0
        path, state = engine.load_checkpoint(folder, tag=_TAG)
        if path is None:  # DeepSpeed only warns, and would train from a random start
            raise TrainingError(
                f"the checkpoint in {folder} cannot be loaded", "Run again with --force for this stage."
            )
        return int(state["step"])
