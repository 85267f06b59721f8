"""Do all nodes of a cluster run the same? A difference shows here, by name, and not hours later as a strange error."""

from __future__ import annotations

import functools
import hashlib
import platform
import time
from importlib import metadata
from pathlib import Path

from babelray.errors import ClusterError

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
    """What this process would run; nothing is imported for it."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found | {"babelray": code_digest(Path(__file__).resolve().parent)}


def check_nodes(patience: float = PATIENCE) -> None:
    """Ask every node of the cluster, and refuse to go on where one differs from this process.

    Nodes that join later, as an autoscaler's do, are not asked.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(versions)
    asked = {
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in ray.nodes()
        if node["Alive"]
    }
    deadline = time.monotonic() + patience
    answered, silent = list[ray.ObjectRef](), list(asked)
    while silent and time.monotonic() < deadline:
        found, silent = ray.wait(silent, num_returns=len(silent), timeout=min(2, patience))
        answered += found
        alive = _alive()  # Ray may never say that a task was lost with its node
        silent = [one for one in silent if asked[one]["NodeID"] in alive]
    mine = versions()
    wrong, without = [], []
    for answer in answered:
        try:
            wrong += _differences(_name(asked[answer]), ray.get(answer), mine)
        except ray.exceptions.RayError as error:
            if asked[answer]["NodeID"] in _alive():
                without.append(f"{_name(asked[answer])}: {str(error).strip().splitlines()[-1]}")
    without += [f"{_name(asked[one])}: no answer in {patience:.0f} s" for one in silent]
    if wrong:
        raise ClusterError(
            "the nodes of the cluster are not alike:\n" + "\n".join(sorted(wrong)),
            "Give every node the same image or environment, and start the nodes that differ anew.",
        )
    if without:
        raise ClusterError(
            "not every node of the cluster can take part:\n" + "\n".join(sorted(without)),
            "Give the same command again; if it does not help, start these nodes anew.",
        )


def _differences(name: str, found: Versions, expected: Versions) -> list[str]:
    return [
        f"{name} has {what} {found[what]}, the driver {version}"
        for what, version in expected.items()
        if found[what] != version
    ]


def _name(node: dict[str, str]) -> str:
    address, host = node["NodeManagerAddress"], node.get("NodeManagerHostname", "")
    return f"node {address}" + (f" ({host})" if host and host != address else "")


def _alive() -> set[str]:
    import ray

    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}
