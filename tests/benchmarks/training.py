"""Speed and memory of training. Prints one line of JSON per measurement.

    python tests/benchmarks/training.py engine
    python tests/benchmarks/training.py memory

engine  tokens per second under Ray Train and DeepSpeed against a bare PyTorch loop with the same model and the same
        prepared batches, alternately in the same worker; and the share of a step spent waiting for data when batches
        are not prepared.
memory  the peak memory of a worker and the seconds per step by ZeRO stage, on two workers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch

from babelray.cluster import session as cluster
from babelray.encoder.load import load_masked_lm
from babelray.encoder.scratch import ArchitectureConfig, random_encoder, train_tokenizer
from babelray.training.config import TrainingConfig
from babelray.training.engine import start_engine
from babelray.training.launch import Worker, WorkerRun, run_workers
from babelray.training.loop import steps, update
from babelray.training.mixture import Group, Mixture, StepData

OBJECTIVES = {
    "mlm": [{"kind": "mlm", "batch_size": 64}],
    "all": [
        {"kind": "mlm", "batch_size": 32},
        {"kind": "static-dcca", "batch_size": 256},
        {"kind": "transport", "batch_size": 16},
        {"kind": "word-l2", "batch_size": 16},
        {"kind": "contrastive", "batch_size": 32},
    ],
}


class Quiet:
    """Shows no progress."""

    def update(self, *arguments: Any) -> None: ...


def make_encoder(folder: str, vocabulary: int, width: int, layers: int) -> None:
    """An encoder with random weights, whose tokenizer is trained on the starter corpus."""
    from support.starter_training_data import sentences

    shape = {"vocabulary": vocabulary, "width": width, "layers": layers, "heads": max(1, width // 32)}
    config = ArchitectureConfig(**shape)
    tokenizer = train_tokenizer(sentences(), vocabulary, config.max_tokens)
    tokenizer.save_pretrained(folder)
    random_encoder(config, len(tokenizer), seed=0).save_pretrained(folder)


def built(encoder: str, config: TrainingConfig, worker: Worker) -> Mixture:
    from support.starter_training_data import StarterTrainingData

    training_data = StarterTrainingData(encoder)
    objectives = [objective.build(training_data) for objective in config.objectives]
    group = Group(worker.rank, worker.count)
    mixture = Mixture(load_masked_lm(encoder).train(), objectives, group, config.accumulate, 1)
    for objective in objectives:
        objective.start(torch.device("cpu"))
    return mixture


def compare(encoder: str, config: TrainingConfig, out: str, worker: Worker) -> None:
    """Measure the bare loop and the engine alternately, on the single worker."""
    mixture, bare = built(encoder, config, worker), built(encoder, config, worker)
    optimizer = torch.optim.AdamW(bare.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    engine = start_engine(mixture, config)
    data = [mixture.draw(step, step / config.steps) for step in range(config.steps)]

    def bare_step(step: StepData) -> None:
        weights = {label: o.weight_at(0) for label, o in bare.objectives.items()}
        loss, _ = bare.losses(step, 0, weights, bare.counts(step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(bare.parameters(), config.clip)
        optimizer.step()
        optimizer.zero_grad()

    actions = {"bare": bare_step, "engine": lambda step: update(engine, mixture, step, config)}
    seconds = dict.fromkeys(actions, 0.0)
    for turn in range(4):
        for step in data:
            for name in list(actions)[:: 1 if step.step % 2 else -1]:
                start = time.perf_counter()
                actions[name](step)
                seconds[name] += time.perf_counter() - start if turn else 0.0  # the first round is a warm-up
    start, waited = time.perf_counter(), 0.0
    for step, seconds_waited in steps(mixture, config, torch.device("cpu")):
        update(engine, mixture, step, config)
        waited += seconds_waited if step.step else 0.0
    seconds["engine_and_data"] = 3 * (time.perf_counter() - start)
    tokens = 3 * sum(step.tokens for step in data)
    found = {f"{name}_tokens_per_second": round(tokens / taken) for name, taken in seconds.items()}
    found |= {"share": round(seconds["bare"] / seconds["engine"], 3)}
    found |= {"waiting": round(3 * waited / seconds["engine_and_data"], 4)}
    Path(out).write_text(json.dumps(found))


def one_stage(encoder: str, config: TrainingConfig, out: str, worker: Worker) -> None:
    import resource

    mixture = built(encoder, config, worker)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine = start_engine(mixture, config)
    times = []
    for step, _ in steps(mixture, config, torch.device("cpu")):
        start = time.perf_counter()
        update(engine, mixture, step, config)
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if worker.rank == 0:
        found = {"start_megabytes": before // 1024, "peak_megabytes": peak // 1024, "seconds": round(median(times), 3)}
        Path(out).write_text(json.dumps(found))


def on_workers(function: Any, encoder: str, config: TrainingConfig) -> dict[str, Any]:
    from babelray.storage import Location

    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "found.json"))
        run = WorkerRun(config.workers, Location.parse(folder), Quiet(), max_failures=0)
        run_workers(partial(function, encoder, config, out), run)
        return json.loads(Path(out).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["engine", "memory"])
    parser.add_argument("--objectives", choices=list(OBJECTIVES), default="mlm")
    parser.add_argument("--vocabulary", type=int, default=6000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--zero-stage", type=int, default=1)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])  # for the workers
    shape = f"{options.layers} layers of {options.width}, {options.vocabulary} subwords"
    with tempfile.TemporaryDirectory() as encoder:
        make_encoder(encoder, options.vocabulary, options.width, options.layers)
        cluster.connect()
        common = {"objectives": OBJECTIVES[options.objectives], "steps": options.steps, "warmup": 0.0}
        if options.what == "engine":
            config = TrainingConfig(**common, workers=1, zero_stage=options.zero_stage)
            found = {"engine": shape, "objectives": options.objectives, "zero_stage": options.zero_stage}
            print(json.dumps({"benchmark": found.pop("engine"), **found, **on_workers(compare, encoder, config)}))
        else:
            for stage in (0, 1, 2, 3):
                config = TrainingConfig(**common, workers=2, zero_stage=stage)
                print(json.dumps({"benchmark": shape, "zero_stage": stage, **on_workers(one_stage, encoder, config)}))
        cluster.disconnect()


if __name__ == "__main__":
    main()
