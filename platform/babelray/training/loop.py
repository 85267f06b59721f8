"""The training loop that every worker runs: batches, losses, step; figures, measurements, checkpoints now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from babelray.ahead import ahead
from babelray.encoder.load import load_masked_lm
from babelray.objectives.build import build_objective
from babelray.training.checkpoint import Checkpoint, engine_state, snapshot
from babelray.training.config import learning_rate
from babelray.training.engine import start_engine
from babelray.training.mixture import Group, Mixture, StepData
from babelray.training.validation import Best, Validation
from babelray.training.watch import Watch

if TYPE_CHECKING:
    from babelray.training.config import OptimizationConfig, TrainingConfig
    from babelray.training.launch import Worker
    from babelray.training.materials import ArtifactMaterials


def train(config: TrainingConfig, worker: Worker, materials: ArtifactMaterials) -> None:
    """Train from the last checkpoint, or from the start, to the last step or until it gets no better."""
    group = Group(worker.rank, worker.count)
    model = load_masked_lm(materials.encoder).train()
    objectives = [build_objective(objective, materials) for objective in config.objectives]
    mixture = Mixture(model, objectives, group, config.accumulate, materials.seed)
    with worker.last_checkpoint() as folder:
        checkpoint = Checkpoint(folder) if folder else None
        engine = _start(mixture, config, checkpoint, worker)
        state: dict[str, Any] = checkpoint.state if checkpoint else {"step": 0}
    for objective in objectives:
        objective.restore(state.get("objectives", {}).get(objective.label))
        objective.start(engine.device)
    validation = Validation(config.validation, engine, materials, group) if config.validation else None
    best = Best(config.validation, state.get("best"))
    watch = Watch(mixture, worker, config, state.get("first"))

    step: int = state["step"]
    worker.saved = step
    worker.progress(step, config.steps, "steps", "")
    for data, waited in steps(mixture, config, engine.device, step):
        if best.enough:
            if worker.rank == 0:
                worker.say(f"stopped at step {step}: no better {best.measure} in {best.patience} measurements")
            break
        sums_OL, counts_OL, norm = update(engine, mixture, data.to(engine.device), config, watch)
        step += 1
        worker.progress(step, config.steps, "steps", "")
        watch.add(step, sums_OL, counts_OL, norm, data.tokens, waited)
        measured = validation is not None and (step % validation.config.every == 0 or step == config.steps)
        if measured and validation is not None:
            worker.metrics(step, best.add(validation.measure(), step))
        if measured or step % config.checkpoint_every == 0 or step == config.steps:
            state = {"step": step, "workers": worker.count, "first": watch.first, "best": best.state}
            state |= {"zero_stage": config.zero_stage, "accumulate": config.accumulate, **engine_state(engine)}
            state |= {"objectives": mixture.state}
            worker.checkpoint(snapshot(engine, worker.rank, worker.count), state, best.last if measured else {})
    worker.wait_for_checkpoints()


def _start(mixture: Mixture, config: TrainingConfig, checkpoint: Checkpoint | None, worker: Worker) -> Any:
    """The engine, as the checkpoint left it."""
    if checkpoint is None:
        return start_engine(mixture, config)
    now = {"workers": worker.count, "zero_stage": config.zero_stage, "accumulate": config.accumulate}
    then = {name: checkpoint.state[name] for name in now}
    if worker.rank == 0:
        changes = ", ".join(f"{name} {then[name]} → {now[name]}" for name in now if then[name] != now[name])
        other = f" with {changes}: the same training, not the same bits" if changes else ""
        worker.say(f"resumed at step {checkpoint.state['step']}{other}")
    checkpoint.load_weights(mixture.model)
    engine = start_engine(mixture, config)
    checkpoint.load_optimizer(engine)
    return engine


def steps(
    mixture: Mixture, config: OptimizationConfig, device: torch.device, start: int = 0
) -> Iterator[tuple[StepData, float]]:
    """The data of each step, made ahead by a thread, and the seconds that were spent waiting for it.

    Nothing is made ahead of a step before which an objective looks at the encoder again.
    """
    while start < config.steps:
        if mixture.renews(start):
            mixture.renew(start, device)
        end = next((step for step in range(start + 1, config.steps) if mixture.renews(step)), config.steps)
        drawn = ahead(mixture.draw(step, step / config.steps) for step in range(start, end))
        for _ in range(start, end):
            began = time.perf_counter()
            data = next(drawn)
            yield data, time.perf_counter() - began
        start = end


def update(
    engine: Any, mixture: Mixture, data: StepData, config: OptimizationConfig, watch: Watch | None = None
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """One step: losses of all parts, their gradients, new weights; the losses are looked at before the weights change.

    Returns sums of terms and their counts (O, L), and the norm of the gradient.
    """
    done = data.step / config.steps
    weights = {label: objective.weight_at(done) for label, objective in mixture.objectives.items()}
    counts_OL = mixture.counts(data)
    cached = mixture.cache(data, engine) if config.accumulate > 1 else None
    for group in engine.optimizer.param_groups:
        group["lr"] = learning_rate(config, data.step)
    sums_OL = torch.zeros_like(counts_OL)
    for number in range(config.accumulate):
        loss, part_OL = engine(data, number, weights, counts_OL, cached)
        sums_OL += part_OL
        engine.backward(loss)
        if number + 1 == config.accumulate:
            mixture.group.sum(sums_OL)
            if watch is not None:
                watch.check(data.step, sums_OL, counts_OL)
            if engine.zero_optimization_stage() == 0:
                norm = torch.nn.utils.clip_grad_norm_(mixture.parameters(), config.clip)
        engine.step()
    if engine.zero_optimization_stage():
        norm = engine.get_global_grad_norm()
    return sums_OL, counts_OL, float(norm)
