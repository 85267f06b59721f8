"""Starting workers with Ray Train, and what a worker can say while it works."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from babelray import cluster
from babelray.errors import BabelrayError, ClusterError
from babelray.nodes import Driver
from babelray.tasks import peak_memory

if TYPE_CHECKING:
    from ray.train import Checkpoint
    from torch import Tensor

    from babelray.progress import Progress
    from babelray.storage import Place


@dataclass
class Worker:
    """One worker's view of the run. What it says goes to the driver, which shows and tracks it."""

    mailbox: Any
    rank: int
    count: int
    saved: int = field(default=0, init=False)
    """The step of the last checkpoint that this worker has seen."""
    _said: float = field(default=0.0, init=False)
    _writing: threading.Event | None = field(default=None, init=False)

    def progress(self, done: float, total: float, unit: str, note: str) -> None:
        """Progress of this worker; sent at most three times a second."""
        now = time.monotonic()
        if now - self._said > 0.3 or done >= total:
            self._said = now
            event = {"kind": "progress", "rank": self.rank, "done": done, "total": total, "unit": unit, "note": note}
            self._send(event | {"peak_bytes": peak_memory()})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Figures of a step, from the first worker only."""
        if self.rank == 0:
            self._send({"kind": "metrics", "step": step, "values": dict(values)})

    def say(self, text: str) -> None:
        self._send({"kind": "say", "text": text})

    def _send(self, event: cluster.Event) -> None:
        self.mailbox.put.remote(event)

    def checkpoint(self, tensors: dict[str, Tensor], state: dict[str, Any], metrics: Mapping[str, float]) -> None:
        """Hand this worker's part of a checkpoint to Ray Train, which stores it while training goes on.

        It waits for the one before, so that no more than one copy is in memory. A checkpoint counts once all workers
        have stored their parts, never before.
        """
        import ray.train
        from ray.train import CheckpointUploadMode

        from babelray.storage.place import explained
        from babelray.training.checkpoint import write

        storage = ray.train.get_context().get_storage()
        prefix = _prefix(storage.experiment_fs_path, self.rank)
        if self._writing is None:
            _remove_temporary(prefix)
        self.wait_for_checkpoints()
        done = self._writing = threading.Event()

        def store(checkpoint: Any, name: str) -> Any:
            try:
                with explained(f"{storage.experiment_fs_path}/{name}", "write"):
                    write(Path(checkpoint.path), self.rank, tensors, state)
                    return storage.persist_current_checkpoint(checkpoint, name)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            finally:
                done.set()

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


def _prefix(run: str, rank: int) -> str:
    """Of the local folders in which a worker of a run writes its part of a checkpoint."""
    return f"babelray-checkpoint-{hashlib.sha256(run.encode()).hexdigest()[:12]}-{rank}-"


def _remove_temporary(prefix: str) -> None:
    """Remove what a worker that was killed in the middle of a checkpoint has left on this machine."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        shutil.rmtree(folder, ignore_errors=True)


def run_workers(
    function: Callable[[Worker], None],
    workers: int,
    storage: Place,
    max_failures: int,
    progress: Progress,
    track: Callable[[Mapping[str, float], int], None],
    say: Callable[[str], None] = lambda text: None,
    keep: Mapping[str, Any] | None = None,
) -> list[tuple[Checkpoint, dict[str, Any]]]:
    """Run a function on workers until all are done; return the checkpoints that are left in `storage`, with metrics.

    A worker that is lost is replaced up to `max_failures` times, from the last checkpoint; so does the same call
    made again after the driver was lost. An error that Babelray raised on purpose ends the run: it would come again.
    """
    import ray
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    from babelray.storage.arrow import kept_in
    from babelray.training.record import KeepRecord, mend

    where: dict[int, tuple[float, float]] = {}
    errors: list[BabelrayError] = []
    failed: TrainingFailedError | None = None

    def receive(event: cluster.Event) -> None:
        if event["kind"] == "progress":
            where[event["rank"]] = (event["done"], event["total"])
            done, total = _joined(where, event["unit"])
            progress.update(done, total, event["unit"], event["note"])
            progress.peak_bytes = max(progress.peak_bytes, event["peak_bytes"])
        elif event["kind"] == "metrics":
            track(event["values"], event["step"])
        elif event["kind"] == "say":
            say(event["text"])
        elif event["kind"] == "error":
            errors.append(event["error"])

    resources = ray.cluster_resources()
    use_gpu = _asks_for_gpus(workers, resources)
    cpus = min(1.0, resources.get("CPU", 1) / (2 * workers))
    # GPUs that are near each other talk faster; workers without one would take each other's cores.
    strategy = "PACK" if use_gpu else "SPREAD"
    run = storage / "workers"
    if not storage.is_s3:  # an object on S3 is written whole or not at all
        mend(run)
    with cluster.mailbox(receive) as mailbox:
        trainer = TorchTrainer(
            _run,
            train_loop_config={"function": function, "mailbox": mailbox, "driver": Driver.this()},
            scaling_config=ScalingConfig(
                num_workers=workers,
                use_gpu=use_gpu,
                resources_per_worker={"CPU": cpus},
                placement_strategy=strategy,
            ),
            run_config=RunConfig(
                name=run.name,
                **kept_in(storage),
                callbacks=[] if storage.is_s3 else [KeepRecord(run)],
                checkpoint_config=CheckpointConfig(**keep or {}),
                failure_config=FailureConfig(max_failures=max_failures),
            ),
        )
        try:
            with _interruptible():
                result = trainer.fit()
        except TrainingFailedError as error:
            failed = error
    if errors:
        raise errors[0]
    if failed:
        raise ClusterError(
            f"the workers failed: {_last_line(failed)}",
            "Run the same command again to go on from the last checkpoint; --debug shows the workers' own output.",
        ) from failed
    return result.best_checkpoints or []


def _asks_for_gpus(workers: int, resources: Mapping[str, float]) -> bool:
    """Whether there is one for each worker, or the user says that they come: a cluster that scales up has none yet."""
    return os.environ.get("BABELRAY_USE_GPU") == "1" or resources.get("GPU", 0) >= workers


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C is KeyboardInterrupt here and afterwards: Ray Train takes the signal, keeps it, and exits with 0."""
    if threading.current_thread() is not threading.main_thread():  # as in a sweep; Ray Train leaves that alone
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


def _joined(where: Mapping[int, tuple[float, float]], unit: str) -> tuple[float, float]:
    """Steps are the same on every worker; anything else (sentences, words) adds up."""
    if unit == "steps":
        return next(iter(where.values()))
    return sum(done for done, _ in where.values()), sum(total for _, total in where.values())


def _last_line(error: BaseException) -> str:
    r"""What went wrong, at the end of a traceback; a remedy that follows is indented.

    >>> _last_line(RuntimeError("Traceback:\n  in train\nStorageError: cannot write\n  Free some space."))
    'StorageError: cannot write'
    """
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip() and not line.startswith(" ")]
    return lines[-1][:300] if lines else type(error).__name__


def _take_cores(workers: int) -> None:
    """This worker's share of the node's cores: Ray would give it a single thread."""
    import ray
    import torch

    node = ray.get_runtime_context().get_node_id()
    cores = next(int(n["Resources"].get("CPU", 1)) for n in ray.nodes() if n["NodeID"] == node)
    torch.set_num_threads(max(1, cores // workers))


def _run(config: dict[str, Any]) -> None:
    """What Ray Train calls on every worker."""
    import ray
    import ray.train

    context = ray.train.get_context()
    _take_cores(context.get_local_world_size())
    worker = Worker(config["mailbox"], context.get_world_rank(), context.get_world_size())
    if ray.get(worker.mailbox.failed.remote()):
        return
    try:
        config["driver"].check()
        config["function"](worker)
    except BabelrayError as error:
        ray.get(worker.mailbox.put.remote({"kind": "error", "error": error}))
        if worker.count > 1:
            raise  # the others may wait for this one: Ray Train ends them all, and those it starts again do nothing
