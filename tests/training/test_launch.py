import io
import json
import signal
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from babelray.cluster.progress import Progress
from babelray.errors import DataError
from babelray.storage import Location
from babelray.training.launch import Worker, WorkerRun, _interruptible, run_workers


def test_ctrl_c_stays_an_interruption() -> None:
    """Ray Train puts a handler of its own in place, which exits with 0, and leaves it there."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), _interruptible():
        signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before
    with _interruptible():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) == before


def test_the_error_of_one_worker_ends_those_that_wait_for_it(local_ray: None, tmp_path: Path) -> None:
    def work(worker: Worker) -> None:
        import ray.train.collective

        (tmp_path / f"{worker.rank}-{time.monotonic_ns()}").touch()
        if worker.rank == 1:
            while not list(tmp_path.glob("0-*")):
                time.sleep(0.1)
            raise DataError("sw: no word is known", "Take another encoder.")
        ray.train.collective.barrier()

    with Progress(Console(file=io.StringIO()), "test") as progress, pytest.raises(DataError, match="no word is known"):
        run_workers(work, WorkerRun(2, Location.parse(tmp_path / "runs"), progress))
    assert len(list(tmp_path.glob("[01]-*"))) == 2, "what would fail again is not tried again"


def test_a_half_written_index_of_checkpoints_is_restored(tmp_path: Path) -> None:
    """Ray Train truncates it, then writes: a kill in between leaves nothing that it could read."""
    from babelray.training.checkpoint_index import INDEX, CheckpointIndexBackup, restore_index

    run = Location.parse(tmp_path / "workers")
    complete = json.dumps({"checkpoint_results": ["checkpoint_1"]})
    (run / INDEX).write_text(complete)
    CheckpointIndexBackup(run).after_report(None, [], "checkpoint_1")
    for damaged in ("", complete[:20]):
        (run / INDEX).write_text(damaged)
        CheckpointIndexBackup(run).after_report(None, [], "checkpoint_2")  # while Ray writes: not copied
        restore_index(run)
        assert (run / INDEX).read_text() == complete
    newer = json.dumps({"checkpoint_results": ["checkpoint_2"]})
    (run / INDEX).write_text(newer)
    restore_index(run)
    assert (run / INDEX).read_text() == newer

    first = Location.parse(tmp_path / "first" / "workers")
    (first / INDEX).write_text("")
    restore_index(first)
    assert not (first / INDEX).exists(), "the first index: Ray starts from the beginning"
