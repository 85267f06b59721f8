"""Which device a process computes on, and how many workers train: by what Ray has assigned, and what a cluster has.

Ray hides all GPUs from a process that has asked for none (`RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO`), so that
`torch.cuda.is_available()` is true in the processes of a run only where a GPU is assigned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from babelray.errors import ClusterError

DEFAULT_WORKERS = 2
"""Training workers on a cluster without GPUs, whose cores they share."""
CORES_PER_RUN, MOST_RUNS = 2, 16
"""Cores that one of several concurrent runs needs; more runs at a time than that help no search."""
EXPECT_GPUS = "BABELRAY_USE_GPU"
"""Set to 1 where GPUs are started on request, and a cluster may have none yet."""
PRETEND = "BABELRAY_PRETEND_GPUS"
"""Set to 1 in tests of the assignment: GPUs that were declared to Ray, and do not exist, stand for the CPU."""


def assigned_device() -> str:
    """The GPU that Ray has assigned to this task or training worker; `cpu` if there is none, and outside of Ray."""
    if "ray" not in sys.modules:
        return "cpu"
    import ray

    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU") if ray.is_initialized() else None
    if not gpus:
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        if os.environ.get(PRETEND) == "1":
            return "cpu"
        raise ClusterError(
            "Ray assigned a GPU that PyTorch cannot use",
            "Install a build of PyTorch for this node's GPU driver; `babelray doctor` shows what PyTorch sees.",
        )
    return cuda_device(gpus[0], os.environ.get("CUDA_VISIBLE_DEVICES"))


def cuda_device(gpu: str, visible: str | None) -> str:
    """PyTorch's name of a GPU: its place among those that the process sees.

    A task sees its own GPU alone, a training worker those of all workers on its node.

    >>> cuda_device("5", "5"), cuda_device("5", "4,5"), cuda_device("5", None)
    ('cuda:0', 'cuda:1', 'cuda:5')
    """
    return f"cuda:{visible.split(',').index(gpu) if visible else gpu}"


def has_gpus(resources: Mapping[str, float]) -> bool:
    """Whether work should ask for GPUs: the cluster has some, or the user expects it to start them."""
    return os.environ.get(EXPECT_GPUS) == "1" or resources.get("GPU", 0) >= 1


def worker_count(
    wanted: int | None, resources: Mapping[str, float], fits: Callable[[int], bool] = lambda n: True
) -> int:
    """The number of workers of a training.

    Args:
        wanted: What the recipe says; None for as many as there are GPUs, without GPUs `DEFAULT_WORKERS`.
        resources: What the cluster has.
        fits: Whether a number of workers can share the batches equally.

    Examples:
        >>> worker_count(None, {"CPU": 64, "GPU": 6}, lambda workers: 32 % workers == 0)
        4
        >>> worker_count(None, {"CPU": 8})
        2
        >>> worker_count(4, {"GPU": 1})
        Traceback (most recent call last):
        ...
        babelray.errors.ClusterError: 4 workers need 4 GPUs, and the cluster has 1
          Set `workers` to 1 or less, or leave it out.
    """
    gpus = int(resources.get("GPU", 0))
    if wanted is None:
        most = gpus or min(DEFAULT_WORKERS, max(1, int(resources.get("CPU", 1))))
        return next(count for count in range(most, 0, -1) if count == 1 or fits(count))
    if 0 < gpus < wanted and os.environ.get(EXPECT_GPUS) != "1":
        raise ClusterError(
            f"{wanted} workers need {wanted} GPUs, and the cluster has {gpus}",
            f"Set `workers` to {gpus} or less, or leave it out.",
        )
    return wanted


def concurrent_runs(workers: int | None, resources: Mapping[str, float]) -> int:
    """How many runs with this number of training workers a cluster should do at a time.

    >>> concurrent_runs(2, {"CPU": 64, "GPU": 8}), concurrent_runs(None, {"GPU": 8}), concurrent_runs(2, {"CPU": 4})
    (4, 1, 2)
    """
    if gpus := int(resources.get("GPU", 0)):
        return max(1, min(MOST_RUNS, gpus // (workers or gpus)))
    return max(1, min(MOST_RUNS, int(resources.get("CPU", 1)) // CORES_PER_RUN))
