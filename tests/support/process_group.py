"""Trainings without Ray: workers are processes of this machine, a checkpoint is a folder. A module of its own, so that
spawned processes can import it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@dataclass
class LocalWorker:
    """What Ray Train's worker is to the loop, with the checkpoints in a folder."""

    folder: Path
    rank: int = 0
    count: int = 1
    stop_after: int | None = None
    """The step after whose checkpoint the worker is to die."""
    saved: int = 0
    said: list[str] = field(default_factory=list)
    values: dict[int, dict[str, float]] = field(default_factory=dict)
    reported: dict[int, dict[str, float]] = field(default_factory=dict)
    """What was said with each checkpoint."""

    def progress(self, done: float, total: float, unit: str, note: str) -> None: ...

    def notify(self, text: str) -> None:
        self.said.append(text)

    def metrics(self, step: int, values: dict[str, float]) -> None:
        self.values.setdefault(step, {}).update(values)

    def checkpoint(self, tensors: dict[str, Tensor], state: dict[str, Any], metrics: dict[str, float]) -> None:
        from babelray.training.checkpoint import write

        there = self.folder / f"step-{state['step']:05d}"
        there.mkdir(parents=True, exist_ok=True)
        write(there, self.rank, tensors, state)
        self.saved = state["step"]
        self.reported[self.saved] = metrics
        if self.count > 1:
            torch.distributed.barrier()
        if self.stop_after == state["step"]:
            raise KilledError

    def wait_for_checkpoints(self) -> None: ...

    @contextlib.contextmanager
    def last_checkpoint(self) -> Iterator[str | None]:
        found = sorted(self.folder.glob("step-*"))
        yield str(found[-1]) if found else None

    def losses(self, label: str) -> list[float]:
        return [
            self.values[step][f"loss/{label}"] for step in sorted(self.values) if f"loss/{label}" in self.values[step]
        ]


class KilledError(Exception):
    """Stands for what `kill -9` does."""


def start_group(rank: int, count: int, port: int) -> None:
    """The process group that DeepSpeed asks for."""
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank)
    )
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=count)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def weights(checkpoint: Path) -> dict[str, Tensor]:
    """The float32 weights in a checkpoint, put together."""
    from babelray.training.checkpoint import WEIGHT, Checkpoint

    found = Checkpoint(checkpoint)
    names = {key.partition("/")[2] for key in found._pieces if key.startswith(f"{WEIGHT}/")}
    sizes = {name: sum(count for _, count, _, _ in found._pieces[f"{WEIGHT}/{name}"]) for name in names}
    return {name: found.read(WEIGHT, name, 0, size) for name, size in sorted(sizes.items())}


def two_workers(encoder: str, jobs: list[dict[str, Any]]) -> list[dict[str, list[float]]]:
    """Run trainings one after the other on two processes; return the losses of each."""
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_work, (free_port(), encoder, jobs, folder), nprocs=2)
        return json.loads(Path(folder, "losses.json").read_text())


def _work(rank: int, port: int, encoder: str, jobs: list[dict[str, Any]], folder: str) -> None:
    start_group(rank, 2, port)
    losses = []
    for job in jobs:
        worker = run(encoder, job["config"], Path(job["folder"]), rank, 2, job.get("stop_after"))
        measured = {str(step): v["validation/mlm"] for step, v in worker.values.items() if "validation/mlm" in v}
        losses.append({label: worker.losses(label) for label in job["labels"]} | {"measured": measured})
    if rank == 0:
        Path(folder, "losses.json").write_text(json.dumps(losses))


def run(
    encoder: str, config: dict[str, Any], folder: Path, rank: int = 0, count: int = 1, stop_after: int | None = None
) -> LocalWorker:
    """One training on `SmallTrainingData`."""
    from babelray.training.config import TrainingConfig
    from babelray.training.loop import train
    from support.small_training_data import SmallTrainingData

    worker = LocalWorker(folder, rank, count, stop_after)
    with contextlib.suppress(KilledError):
        train(TrainingConfig(workers=count, **config), worker, SmallTrainingData(encoder))
    return worker
