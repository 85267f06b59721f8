"""Independent pieces of work on the cluster, with one progress bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.cluster.devices import has_gpus
from babelray.cluster.memory import explain_memory, memory_explained
from babelray.cluster.nodes import Driver
from babelray.errors import BabelrayError, ClusterError

if TYPE_CHECKING:
    from babelray.cluster.progress import Progress


@dataclass(frozen=True)
class Task:
    """A call, with the name of its progress and its result."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    memory: int = 0
    """Bytes that it needs. It waits until a node has them free, or for an empty node if none is large enough."""
    encodes: bool = False
    """Whether it runs an encoder: then it gets a GPU of its own, if the cluster has any."""


def run_tasks(tasks: Sequence[Task], progress: Progress, unit: str, cpus: float = 0.5) -> dict[str, Any]:
    """Run every task on the cluster; return the results by name, in the order given.

    The first `BabelrayError` of a task is raised here unchanged.
    """
    import ray

    progress.update(0, len(tasks), unit)
    remote = ray.remote(num_cpus=cpus, max_retries=3)(_call)
    largest = max((node["Resources"].get("memory", 0) for node in ray.nodes() if node["Alive"]), default=0)
    driver, gpus = Driver.this(), int(has_gpus(ray.cluster_resources()))
    waiting = {
        remote.options(memory=min(task.memory, int(largest)), num_gpus=gpus if task.encodes else 0).remote(
            task.function, task.arguments, driver
        ): task.name
        for task in tasks
    }
    results: dict[str, Any] = {}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        name = waiting.pop(ready[0])
        try:
            outcome, peak = ray.get(ready[0])
        except ray.exceptions.RayTaskError:  # a defect: keep its traceback
            raise
        except ray.exceptions.RayError as error:
            outcome, peak = _lost(name, error), 0
        progress.peak_bytes = max(progress.peak_bytes, peak)
        if isinstance(outcome, BabelrayError):
            for other in waiting:
                ray.cancel(other, force=True)
            raise outcome
        results[name] = outcome
        progress.update(len(results), len(tasks), unit, name)
    return {task.name: results[task.name] for task in tasks}


def _lost(name: str, error: Exception) -> ClusterError:
    if explained := explain_memory(error):
        return ClusterError(f"{name}: {explained.problem}", explained.remedy)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return ClusterError(
        f"the worker of {name} was lost repeatedly: {reason[:300]}",
        "Run the same command again: finished work is kept. If memory was short, use larger nodes.",
    )


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], driver: Driver) -> tuple[Any, int]:
    """The result of a task, and the peak memory of its process.

    Errors meant for the user are returned as values: Ray would wrap them in its own traceback.
    """
    try:
        driver.check()
        with memory_explained():
            return function(*arguments), peak_memory()
    except BabelrayError as error:
        return error, peak_memory()


def peak_memory() -> int:
    """The largest memory of this process so far, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
