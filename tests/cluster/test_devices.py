"""Devices by assignment: GPUs that are declared to Ray, and do not exist, are assigned like real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from babelray.cluster.devices import assigned_device, concurrent_runs, has_gpus, worker_count
from babelray.errors import ClusterError

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import json, os, time
import ray
from rich.console import Console
from babelray.cluster.progress import Progress
from babelray.cluster.session import _set_defaults
from babelray.cluster.tasks import Task, run_tasks
from babelray.storage import Location
from babelray.training.launch import WorkerRun, _scaling

_set_defaults()
ray.init(address="local", num_cpus=4, num_gpus=3, include_dashboard=False, log_to_driver=False, logging_level="error")

def assignment():
    from babelray.cluster.devices import assigned_device
    ids = ray.get_runtime_context().get_accelerator_ids()["GPU"]
    time.sleep(1)
    return ids, os.environ.get("CUDA_VISIBLE_DEVICES"), assigned_device()

with Progress(Console(quiet=True), "test") as progress:
    encoding = run_tasks([Task(str(i), assignment, (), encodes=True) for i in range(3)], progress, "tasks")
    other = run_tasks([Task("other", assignment, ())], progress, "tasks")
    scaling = _scaling(WorkerRun(None, Location.parse("run"), progress, fits=lambda workers: workers in (1, 2)))
print(json.dumps([list(encoding.values()), list(other.values()), scaling.num_workers, scaling.num_gpus_per_worker]))
"""


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_each_process_that_runs_an_encoder_gets_one_gpu_and_no_other_sees_any() -> None:
    environment = os.environ | {"BABELRAY_PRETEND_GPUS": "1", "PYTHONPATH": str(ROOT / "platform")}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=280
    )
    assert process.returncode == 0, process.stderr
    encoding, other, workers, gpus = json.loads(process.stdout.splitlines()[-1])
    assert sorted(ids for ids, *_ in encoding) == [["0"], ["1"], ["2"]]
    assert all(visible == ids[0] for ids, visible, _ in encoding)
    assert other == [[[], "", "cpu"]], "a task that runs no encoder sees no GPU"
    assert (workers, gpus) == (2, 1), "three workers could not share the batches"


def test_workers_follow_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BABELRAY_USE_GPU", raising=False)
    assert worker_count(None, {"CPU": 8, "GPU": 1}) == 1, "a laptop with one GPU"
    assert worker_count(None, {"CPU": 1}) == 1 and worker_count(None, {"CPU": 96}) == 2
    assert worker_count(None, {"GPU": 8}, lambda workers: 96 % workers == 0) == 8
    assert worker_count(None, {"GPU": 7}, lambda workers: 96 % workers == 0) == 6
    assert worker_count(2, {"CPU": 8}) == 2 and worker_count(2, {"GPU": 8}) == 2
    with pytest.raises(ClusterError, match="2 workers need 2 GPUs, and the cluster has 1"):
        worker_count(2, {"GPU": 1})


def test_gpus_that_are_started_on_request_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BABELRAY_USE_GPU", raising=False)
    assert has_gpus({"GPU": 1}) and not has_gpus({"CPU": 4})
    monkeypatch.setenv("BABELRAY_USE_GPU", "1")
    assert has_gpus({}) and worker_count(8, {"GPU": 1}) == 8


def test_a_sweep_starts_as_many_trials_as_there_is_room_for() -> None:
    assert concurrent_runs(2, {"CPU": 64, "GPU": 8}) == 4
    assert concurrent_runs(16, {"GPU": 8}) == 1 and concurrent_runs(1, {"GPU": 64}) == 16
    assert concurrent_runs(2, {"CPU": 1}) == 1 and concurrent_runs(2, {"CPU": 6}) == 3


def test_without_ray_the_device_is_the_processor() -> None:
    assert assigned_device() == "cpu"
