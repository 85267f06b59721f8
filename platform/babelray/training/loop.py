"""The training loop that every worker runs: batches, losses, optimizer steps; logs, validation and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from babelray.cluster.prefetch import prefetch
from babelray.encoder.load import load_masked_lm
from babelray.training.checkpoint import Checkpoint, engine_state, snapshot
from babelray.training.config import learning_rate
from babelray.training.engine import start_engine
from babelray.training.mixture import Group, Mixture, StepData
from babelray.training.monitor import Monitor
from babelray.training.validation import Best, Validation

if TYPE_CHECKING:
    from babelray.training.config import OptimizationConfig, TrainingConfig
    from babelray.training.launch import Worker
    from babelray.training.training_data import ArtifactTrainingData


def train(config: TrainingConfig, worker: Worker, training_data: ArtifactTrainingData) -> None:
    """Train from the last checkpoint, or from the start, to the last step or until validation stops improving."""
    config = config.model_copy(update={"workers": worker.count})
    group = Group(worker.rank, worker.count)
    model = load_masked_lm(training_data.encoder).train()
    objectives = [objective.build(training_data) for objective in config.objectives]
    mixture = Mixture(model, objectives, group, config.accumulate, training_data.seed)
    with worker.last_checkpoint() as folder:
        checkpoint = Checkpoint(folder) if folder else None
        engine = _start(mixture, config, checkpoint, worker)
        state: dict[str, Any] = checkpoint.state if checkpoint else {"step": 0}
    for objective in objectives:
        objective.restore(state.get("objectives", {}).get(objective.label))
        objective.start(engine.device)
    validation = Validation(config.validation, engine, training_data, group) if config.validation else None
    best = Best(config.validation, state.get("best"))
    monitor = Monitor(mixture, worker, config, state.get("first"))

    step: int = state["step"]
    worker.saved = step
    worker.progress(step, config.steps, "steps", "")
    for data, waited in steps(mixture, config, engine.device, step):
        if best.enough:
            if worker.rank == 0:
                worker.notify(f"stopped at step {step}: no better {best.metric} in {best.patience} measurements")
            break
        sums_OL, counts_OL, norm = update(engine, mixture, data.to(engine.device), config, monitor)
        step += 1
        worker.progress(step, config.steps, "steps", "")
        monitor.add(step, sums_OL, counts_OL, norm, data.tokens, waited)
        validated = validation is not None and (step % validation.config.every == 0 or step == config.steps)
        if validated and validation is not None:
            worker.metrics(step, best.add(validation.measure(), step))
        if validated or step % config.checkpoint_every == 0 or step == config.steps:
            state = {"step": step, "workers": worker.count, "first": monitor.first, "best": best.state}
            state |= {"zero_stage": config.zero_stage, "accumulate": config.accumulate, **engine_state(engine)}
            state |= {"objectives": mixture.state}
            worker.checkpoint(snapshot(engine, worker.rank, worker.count), state, best.last if validated else {})
    worker.wait_for_checkpoints()


def _start(mixture: Mixture, config: TrainingConfig, checkpoint: Checkpoint | None, worker: Worker) -> Any:
    """The engine, with the weights and the optimizer of the checkpoint if there is one."""
    if checkpoint is None:
        return start_engine(mixture, config)
    if worker.rank == 0:
        worker.notify(_resume_message(config, checkpoint, worker))
    checkpoint.load_weights(mixture.model)
    engine = start_engine(mixture, config)
    checkpoint.load_optimizer(engine)
    return engine


def _resume_message(config: TrainingConfig, checkpoint: Checkpoint, worker: Worker) -> str:
    """The step, and the changed settings that make the result differ in its last bits."""
    now = {"workers": worker.count, "zero_stage": config.zero_stage, "accumulate": config.accumulate}
    before = {name: checkpoint.state[name] for name in now}
    changes = ", ".join(f"{name} {before[name]} → {now[name]}" for name in now if before[name] != now[name])
    suffix = f" with {changes}: the same training, not the same bits" if changes else ""
    return f"resumed at step {checkpoint.state['step']}{suffix}"


def steps(
    mixture: Mixture, config: OptimizationConfig, device: torch.device, start: int = 0
) -> Iterator[tuple[StepData, float]]:
    """The data of each step, prefetched by a thread, and the seconds spent waiting for them.

    Nothing is prefetched beyond a step before which an objective needs to be refreshed.
    """
    while start < config.steps:
        if mixture.needs_refresh(start):
            mixture.refresh(start, device)
        end = next((step for step in range(start + 1, config.steps) if mixture.needs_refresh(step)), config.steps)
        prefetched = prefetch(mixture.draw(step, step / config.steps) for step in range(start, end))
        for _ in range(start, end):
            began = time.perf_counter()
            data = next(prefetched)
            yield data, time.perf_counter() - began
        start = end


def update(
    engine: Any, mixture: Mixture, data: StepData, config: OptimizationConfig, monitor: Monitor | None = None
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """One step: losses of all parts, their gradients, new weights. The monitor checks losses before weights change.

    Returns the sums of terms and their counts (O, L), and the norm of the gradient.
    """
    completed = data.step / config.steps
    weights = {label: objective.weight_at(completed) for label, objective in mixture.objectives.items()}
    counts_OL = mixture.counts(data)
    cached = mixture.cache_gradients(data, engine) if config.accumulate > 1 else None
    for group in engine.optimizer.param_groups:
        group["lr"] = learning_rate(config, data.step)
    sums_OL = torch.zeros_like(counts_OL)
    for part in range(config.accumulate):
        loss, part_OL = engine(partial(mixture.losses, data, part, weights, counts_OL, cached))
        sums_OL += part_OL
        engine.backward(loss)
        if part + 1 == config.accumulate:
            mixture.group.sum(sums_OL)
            if monitor is not None:
                monitor.check(data.step, sums_OL, counts_OL)
            if engine.zero_optimization_stage() == 0:
                norm = torch.nn.utils.clip_grad_norm_(mixture.parameters(), config.clip)
        engine.step()
    if engine.zero_optimization_stage():
        norm = engine.get_global_grad_norm()
    return sums_OL, counts_OL, float(norm)
