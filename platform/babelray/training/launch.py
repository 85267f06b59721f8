"""Starting workers with Ray Train, and a worker's connection to the driver."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from babelray.cluster import session as cluster
from babelray.cluster.devices import has_gpus, worker_count
from babelray.cluster.memory import explain_memory, memory_explained
from babelray.cluster.nodes import Driver
from babelray.cluster.tasks import peak_memory
from babelray.errors import BabelrayError, ClusterError
from babelray.training.console import LossNote

if TYPE_CHECKING:
    from ray.train import Checkpoint, ScalingConfig
    from ray.train.torch import TorchTrainer
    from torch import Tensor

    from babelray.cluster.progress import Progress
    from babelray.storage import Location


@dataclass
class Worker:
    """One worker's view of the run. It sends events to the driver, which displays and tracks them."""

    mailbox: Any
    rank: int
    count: int
    saved: int = field(default=0, init=False)
    """The step of the last checkpoint that this worker has seen."""
    _last_progress: float = field(default=0.0, init=False)
    _writing: threading.Event | None = field(default=None, init=False)

    def progress(self, done: float, total: float, unit: str, note: str) -> None:
        """Progress of this worker; sent at most three times a second."""
        now = time.monotonic()
        if now - self._last_progress > 0.3 or done >= total:
            self._last_progress = now
            event = {"kind": "progress", "rank": self.rank, "done": done, "total": total, "unit": unit, "note": note}
            self._send(event | {"peak_bytes": peak_memory()})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Metrics of a step, from the first worker only."""
        if self.rank == 0:
            self._send({"kind": "metrics", "step": step, "values": dict(values)})

    def notify(self, text: str) -> None:
        self._send({"kind": "message", "text": text})

    def _send(self, event: cluster.Event) -> None:
        self.mailbox.put.remote(event)

    def checkpoint(self, tensors: dict[str, Tensor], state: dict[str, Any], metrics: Mapping[str, float]) -> None:
        """Hand this worker's part of a checkpoint to Ray Train, which stores it while training continues.

        It waits for the previous one, so that at most one copy is in memory. A checkpoint is complete once all workers
        have stored their parts.
        """
        import ray.train
        from ray.train import CheckpointUploadMode

        from babelray.storage.location import explain_errors
        from babelray.training.checkpoint import write

        storage = ray.train.get_context().get_storage()
        prefix = _temporary_prefix(storage.experiment_fs_path, self.rank)
        if self._writing is None:
            _remove_temporary(prefix)
        self.wait_for_checkpoints()
        stored = self._writing = threading.Event()

        def store(checkpoint: Any, name: str) -> Any:
            try:
                with explain_errors(f"{storage.experiment_fs_path}/{name}", "write"):
                    write(Path(checkpoint.path), self.rank, tensors, state)
                    return storage.persist_current_checkpoint(checkpoint, name)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            finally:
                stored.set()

        folder = tempfile.mkdtemp(prefix=prefix)
        ray.train.report(
            {"step": state["step"], **metrics},
            checkpoint=ray.train.Checkpoint.from_directory(folder),
            checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            checkpoint_upload_fn=store,
        )
        self.saved = state["step"]

    def wait_for_checkpoints(self) -> None:
        if self._writing is not None:
            self._writing.wait()

    @contextlib.contextmanager
    def last_checkpoint(self) -> Iterator[str | None]:
        """A local folder with the last complete checkpoint of this run, or None."""
        import ray.train

        checkpoint = ray.train.get_checkpoint()
        if checkpoint is None:
            yield None
            return
        with checkpoint.as_directory() as folder:
            yield folder


def _temporary_prefix(run: str, rank: int) -> str:
    """The prefix of the local folders in which a worker of a run writes its part of a checkpoint."""
    return f"babelray-checkpoint-{hashlib.sha256(run.encode()).hexdigest()[:12]}-{rank}-"


def _remove_temporary(prefix: str) -> None:
    """Remove the folders of a worker on this machine that was killed while writing a checkpoint."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class WorkerRun:
    """How many workers run, where Ray Train stores their checkpoints, and who receives their events."""

    workers: int | None
    """By default as many as there are GPUs, if they `fit`."""
    storage: Location
    progress: Progress
    track: Callable[[Mapping[str, float], int], None] = lambda values, step: None
    notify: Callable[[str], None] = lambda text: None
    max_failures: int = 3
    """The number of lost workers that are replaced."""
    keep: Mapping[str, Any] = field(default_factory=dict)
    """Options of Ray Train's `CheckpointConfig`: which checkpoints are kept."""
    fits: Callable[[int], bool] = lambda workers: True
    """Whether a number of workers can share the work equally."""


def run_workers(function: Callable[[Worker], None], run: WorkerRun) -> list[tuple[Checkpoint, dict[str, Any]]]:
    """Run a function on workers until all have returned; return the checkpoints that are kept, with their metrics.

    A lost worker is replaced, and resumes from the last checkpoint; so does the same call, made again after the driver
    was lost. An error that Babelray raised on purpose ends the run, since it would come again.
    """
    from ray.train import TrainingFailedError

    from babelray.training.checkpoint_index import restore_index

    if not run.storage.is_s3:  # S3 writes an object completely or not at all
        restore_index(run.storage / FOLDER)
    events = _EventReceiver(run)
    failure: TrainingFailedError | None = None
    with cluster.mailbox(events.receive) as mailbox:
        trainer = _trainer(function, run, mailbox)
        try:
            with _interruptible():
                result = trainer.fit()
        except TrainingFailedError as error:
            failure = error
    if events.errors:
        raise events.errors[0]
    if failure:
        if explained := explain_memory(failure):
            raise explained from failure
        raise ClusterError(
            f"the workers failed: {_last_line(failure)}",
            "Run the same command again to resume from the last checkpoint; --debug shows the workers' own output.",
        ) from failure
    return result.best_checkpoints or []


FOLDER = "workers"
"""Ray Train's folder in the storage of a run."""


class _EventReceiver:
    """Passes on the events of workers: their joint progress, metrics, messages and errors."""

    def __init__(self, run: WorkerRun) -> None:
        self.run = run
        self.errors: list[BabelrayError] = []
        self._progress: dict[int, tuple[float, float]] = {}
        self._losses = LossNote()

    def receive(self, event: cluster.Event) -> None:
        if event["kind"] == "progress":
            self._progress[event["rank"]] = (event["done"], event["total"])
            done, total = _joint_progress(self._progress, event["unit"])
            self.run.progress.update(done, total, event["unit"], event["note"] or str(self._losses))
            self.run.progress.peak_bytes = max(self.run.progress.peak_bytes, event["peak_bytes"])
        elif event["kind"] == "metrics":
            self._losses.add(event["values"])
            self.run.track(event["values"], event["step"])
        elif event["kind"] == "message":
            self.run.notify(event["text"])
        elif event["kind"] == "error":
            self.errors.append(event["error"])


def _trainer(function: Callable[[Worker], None], run: WorkerRun, mailbox: Any) -> TorchTrainer:
    from ray.train import CheckpointConfig, FailureConfig, RunConfig
    from ray.train.torch import TorchTrainer

    from babelray.storage.arrow import run_config_storage
    from babelray.training.checkpoint_index import CheckpointIndexBackup

    return TorchTrainer(
        _run,
        train_loop_config={"function": function, "mailbox": mailbox, "driver": Driver.this()},
        scaling_config=_scaling(run),
        run_config=RunConfig(
            name=FOLDER,
            **run_config_storage(run.storage),
            callbacks=[] if run.storage.is_s3 else [CheckpointIndexBackup(run.storage / FOLDER)],
            checkpoint_config=CheckpointConfig(**run.keep),
            failure_config=FailureConfig(max_failures=run.max_failures),
        ),
    )


def _scaling(run: WorkerRun) -> ScalingConfig:
    """A GPU per worker if the cluster has GPUs, else half of the processors for all workers together."""
    import ray
    from ray.train import ScalingConfig

    resources = ray.cluster_resources()
    workers, use_gpu = worker_count(run.workers, resources, run.fits), has_gpus(resources)
    missing = workers - int(ray.available_resources().get("GPU", 0)) if use_gpu else 0
    if missing > 0:
        run.notify(f"waiting for {missing} of {workers} GPUs, which other work uses or the cluster has yet to start")
    return ScalingConfig(
        num_workers=workers,
        use_gpu=use_gpu,
        resources_per_worker={"CPU": min(1.0, resources.get("CPU", 1) / (2 * workers))},
        # GPUs of one node communicate faster; workers without a GPU would compete for the same cores.
        placement_strategy="PACK" if use_gpu else "SPREAD",
    )


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C, here and afterwards: Ray Train replaces the handler, and exits with 0."""
    if threading.current_thread() is not threading.main_thread():  # as in a sweep, where Ray Train does not replace it
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


def _joint_progress(by_rank: Mapping[int, tuple[float, float]], unit: str) -> tuple[float, float]:
    """The progress of all workers: steps are the same on every worker; other units (sentences, words) add up."""
    if unit == "steps":
        return next(iter(by_rank.values()))
    return sum(done for done, _ in by_rank.values()), sum(total for _, total in by_rank.values())


def _last_line(error: BaseException) -> str:
    r"""The error at the end of a traceback; a remedy that follows is indented.

    >>> _last_line(RuntimeError("Traceback:\n  in train\nStorageError: cannot write\n  Free some space."))
    'StorageError: cannot write'
    """
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip() and not line.startswith(" ")]
    return lines[-1][:300] if lines else type(error).__name__


def _take_cores(workers: int) -> None:
    """Use this worker's share of the node's cores; by default Ray gives it a single thread."""
    import ray
    import torch

    node = ray.get_runtime_context().get_node_id()
    cores = next(int(n["Resources"].get("CPU", 1)) for n in ray.nodes() if n["NodeID"] == node)
    torch.set_num_threads(max(1, cores // workers))


def _run(config: dict[str, Any]) -> None:
    """The function that Ray Train calls on every worker."""
    import ray
    import ray.train

    context = ray.train.get_context()
    _take_cores(context.get_local_world_size())
    worker = Worker(config["mailbox"], context.get_world_rank(), context.get_world_size())
    if ray.get(worker.mailbox.failed.remote()):
        return
    try:
        config["driver"].check()
        with memory_explained():
            config["function"](worker)
    except BabelrayError as error:
        ray.get(worker.mailbox.put.remote({"kind": "error", "error": error}))
        if worker.count > 1:
            raise  # others may wait for this one: Ray Train ends them all, and those that it restarts return at once
