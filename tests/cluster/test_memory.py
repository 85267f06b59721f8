from __future__ import annotations

import numpy as np
import pytest
import torch

from babelray.cluster.memory import explain_memory, memory_explained
from babelray.cluster.tasks import _call, _lost
from babelray.errors import ClusterError

HUGE = 10**15


class AnyDriver:
    def check(self) -> None: ...


def test_errors_of_python_numpy_and_torch_are_explained() -> None:
    for fails in (lambda: np.ones(HUGE), lambda: torch.ones(HUGE), lambda: bytearray(HUGE)):
        with pytest.raises(ClusterError, match="out of memory") as caught, memory_explained():
            fails()
        assert "smaller batch" in caught.value.remedy and "accumulate" in caught.value.remedy


def test_sizes_are_in_gigabytes() -> None:
    with pytest.raises(ClusterError, match=r"out of memory: 4,000,000\.0 GB more were asked for"), memory_explained():
        torch.ones(HUGE)
    explained = explain_memory(RuntimeError("Unable to allocate 1.00 TiB for an array"))
    assert explained is not None and "1,099.5 GB" in explained.problem


def test_workers_that_the_system_or_ray_killed_are_explained() -> None:
    text = "Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.0.0.1) was 15.2GB / 16GB"
    assert _lost("de", RuntimeError(text)).problem == "de: out of memory"
    assert "lost repeatedly" in _lost("de", RuntimeError("the node died")).problem


def test_other_errors_stay() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"), memory_explained():
        raise RuntimeError("size mismatch")


def test_a_task_returns_it_as_an_error_for_the_user() -> None:
    outcome, _ = _call(bytearray, (HUGE,), AnyDriver())  # type: ignore[arg-type]
    assert isinstance(outcome, ClusterError)
