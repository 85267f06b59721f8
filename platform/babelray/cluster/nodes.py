"""The nodes of a cluster: checks that all run the same versions, reports of lost and new nodes and of the clock."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from babelray.errors import ClusterError

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of Babelray's code."""
PACKAGES = ("ray", "torch", "deepspeed")
PATIENCE = 300.0
"""Seconds that the nodes have to start a worker and answer."""
Versions = dict[str, str]


@functools.cache
def code_digest(package: Path) -> str:
    """Twelve hexadecimal digits for all the Python files of a package."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> Versions:
    """The versions that this process would run, found without importing anything.

    Builds of one version for CPU and for GPU (`2.13.0+cpu`) count as the same.
    """
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            installed[name] = "not installed"
    return installed | {"babelray": code_digest(PACKAGE)}


def check_nodes(patience: float = PATIENCE) -> None:
    """Raise an error if a node of the cluster does not answer or differs from this process.

    Nodes that join later, as with an autoscaler, check themselves when they receive work: see `Driver`.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(versions)
    asked = {
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in _alive().values()
    }
    deadline = time.monotonic() + patience
    answered, silent = list[ray.ObjectRef](), list(asked)
    while silent and time.monotonic() < deadline:
        ready, silent = ray.wait(silent, num_returns=len(silent), timeout=min(2, patience))
        answered += ready
        alive = _alive()  # Ray may never report that a task was lost with its node
        silent = [reference for reference in silent if asked[reference]["NodeID"] in alive]
    own = versions()
    differences, missing = [], []
    for answer in answered:
        try:
            differences += _differences(_name(asked[answer]), ray.get(answer), own)
        except ray.exceptions.RayError as error:
            if asked[answer]["NodeID"] in _alive():
                missing.append(f"{_name(asked[answer])}: {str(error).strip().splitlines()[-1]}")
    missing += [f"{_name(asked[reference])}: no answer in {patience:.0f} s" for reference in silent]
    _refuse(differences)
    if missing:
        raise ClusterError(
            "not every node of the cluster can take part:\n" + "\n".join(sorted(missing)),
            "Run the same command again; if that does not help, restart these nodes.",
        )


@dataclass(frozen=True)
class Driver:
    """The node and the versions of the process that distributes the work."""

    node: str
    versions: Versions

    @classmethod
    def this(cls) -> Driver:
        import ray

        return cls(ray.get_runtime_context().get_node_id(), versions())

    def check(self) -> None:
        """Raise an error on a node that differs from the driver's: it may have joined late."""
        import ray

        if ray.get_runtime_context().get_node_id() != self.node:
            _refuse(_differences(f"node {ray.util.get_node_ip_address()}", versions(), self.versions))


def _refuse(differences: list[str]) -> None:
    if differences:
        raise ClusterError(
            "the nodes of the cluster differ:\n" + "\n".join(sorted(differences)),
            "Give every node the same image or environment, and restart the nodes that differ.",
        )


def _differences(name: str, installed: Versions, expected: Versions) -> list[str]:
    return [
        f"{name} has {what} {installed[what]}, the driver {version}"
        for what, version in expected.items()
        if installed[what] != version
    ]


Node = Mapping[str, Any]


@contextlib.contextmanager
def monitor(notify: Callable[[str], None], every: float = 5.0) -> Iterator[None]:
    """For the length of the block, report what may stall a run: lost nodes, and a clock that is set back."""
    import ray

    stop = threading.Event()

    def report_changes() -> None:
        before: dict[str, Node] | None = None
        clock = _clock()
        while True:
            if (back := clock - _clock()) > 1:
                notify(
                    f"the clock went back by {back:,.0f} s, and Ray's timers wait that long: if the run stalls, "
                    "stop it and run the same command again"
                )
            clock = _clock()
            with contextlib.suppress(ray.exceptions.RayError):  # while the head is down
                now = _alive()
                for change in _changes(now if before is None else before, now):
                    notify(change)
                before = now
            if stop.wait(every):
                return

    thread = threading.Thread(target=report_changes, name="babelray-nodes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=30)


def _clock() -> float:
    """The difference between the adjustable and the monotonic clock."""
    return time.time() - time.monotonic()


def _changes(before: Mapping[str, Node], now: Mapping[str, Node]) -> list[str]:
    """
    >>> one = {"NodeManagerAddress": "10.0.0.1", "Resources": {"CPU": 8.0, "GPU": 1.0}}
    >>> two = {"NodeManagerAddress": "10.0.0.2", "Resources": {"CPU": 4.0}}
    >>> _changes({"a": one, "b": two}, {"a": one})
    ['node 10.0.0.2 is lost; cores now: 8, GPUs: 1']
    >>> _changes({"b": two}, {"b": two, "a": one})
    ['node 10.0.0.1 has joined; cores now: 12, GPUs: 1']
    >>> _changes({"b": two}, {})
    ['node 10.0.0.2 is lost; cores now: 0; the run waits for a node']
    """
    changed = [f"{_name(before[node])} is lost" for node in before if node not in now]
    changed += [f"{_name(now[node])} has joined" for node in now if node not in before]
    cores, gpus = (int(sum(node["Resources"].get(kind, 0) for node in now.values())) for kind in ("CPU", "GPU"))
    left = f"cores now: {cores}" + (f", GPUs: {gpus}" if gpus else "") + ("" if cores else "; the run waits for a node")
    return [f"{change}; {left}" for change in changed]


def _name(node: Node) -> str:
    address, host = node["NodeManagerAddress"], node.get("NodeManagerHostname", "")
    return f"node {address}" + (f" ({host})" if host and host != address else "")


def _alive() -> dict[str, Node]:
    """The living nodes by their identity."""
    import ray

    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
