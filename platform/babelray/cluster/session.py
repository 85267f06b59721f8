"""The Ray cluster of a run: an existing one (RAY_ADDRESS), or a local one for the length of the run."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from babelray.cluster.nodes import PACKAGE, check_nodes, monitor
from babelray.errors import ClusterError

if TYPE_CHECKING:
    from rich.console import Console

Event = dict[str, Any]


def connect() -> None:
    """Connect to the cluster that RAY_ADDRESS names; without it, start Ray on this machine only."""
    _keep_local()
    import ray

    if ray.is_initialized():
        return
    address = os.environ.get("RAY_ADDRESS", "")
    _check_reachable(address)
    _set_defaults()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    if os.environ.get("BABELRAY_DEBUG"):
        quiet = {}
    try:
        if address and address != "local":
            ray.init(address=address, runtime_env=_runtime_env(), **quiet)
        else:
            ray.init(address="local", include_dashboard=False, **quiet)
    except Exception as error:  # Ray raises bare exceptions, such as when it does not start in time
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        remedy = "Run the same command again; `babelray doctor` finds out what is wrong."
        raise ClusterError(f"cannot connect to Ray: {first}", remedy) from error
    if address and address != "local":
        try:
            check_nodes()
        except ClusterError:
            ray.shutdown()
            raise


DEFAULTS = {
    "RAY_TRAIN_V2_ENABLED": "1",
    # Train polls its workers every two seconds by default, and notices only then that they have ended.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    # A process that asks for no GPU sees none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    # By default Train drops its request for resources every minute, before a node with GPUs has started.
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "604800",
    "RAY_DEDUP_LOGS": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}


def _keep_local() -> None:
    """Make a Ray that is started here listen on 127.0.0.1 only; Ray reads this when it is imported."""
    if os.environ.get("RAY_ADDRESS", "local") in ("", "local"):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # for all systems, in spite of its name


def _set_defaults() -> None:
    """Set Ray's environment variables that the user has not set."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def _runtime_env() -> dict[str, Any]:
    """The runtime environment of every node: this code, whatever is installed there, and the settings of Ray.

    What a job was submitted with reaches the nodes anyway; Ray refuses to get it twice.
    """
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}").get("runtime_env") or {}
    settings = {name: os.environ[name] for name in DEFAULTS if name not in (job.get("env_vars") or {})}
    environment: dict[str, Any] = {"env_vars": settings}
    if "py_modules" not in job:
        environment |= {"py_modules": [str(PACKAGE)]}
        if "excludes" not in job:
            environment["excludes"] = ["__pycache__"]
    return environment


def _check_reachable(address: str) -> None:
    """Raise an error if nothing answers: Ray itself would retry for minutes and then end the process."""
    if address in ("", "local", "auto"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            return
    except (OSError, ValueError) as error:
        reason = "not host:port" if isinstance(error, ValueError) else (error.strerror or str(error) or "no answer")
        raise ClusterError(
            f"the Ray address {address} does not answer ({reason})",
            "Start Ray there, correct RAY_ADDRESS, or unset it to run on this machine.",
        ) from None


def disconnect() -> None:
    import ray

    if ray.is_initialized():
        try:
            ray.shutdown()
        except Exception as error:  # what was computed is complete: an error of the shutdown must not fail the command
            logging.getLogger("babelray").debug("Ray did not shut down cleanly: %s", error)


@contextlib.contextmanager
def session(console: Console) -> Iterator[None]:
    """Connected for the length of the block. A session within another one uses its connection."""
    _keep_local()
    import ray

    if ray.is_initialized():
        yield
        return
    connect()
    try:
        with monitor(lambda text: console.print(f"[yellow]![/] {text}", soft_wrap=True, highlight=False)):
            yield
    finally:
        disconnect()


def this_node() -> Any:
    """The node of this process, for tasks without CPUs: Ray might place them on the head, which may have no storage."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


class Mailbox:
    """Collects the events of workers that the driver shows or tracks; the driver empties it while it waits."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._failed = False

    def put(self, event: Event) -> None:
        self._events.append(event)
        self._failed = self._failed or event["kind"] == "error"

    def failed(self) -> bool:
        """Whether a worker has had an error that a restart would not cure."""
        return self._failed

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events


@contextlib.contextmanager
def mailbox(receive: Callable[[Event], None], every: float = 0.3) -> Iterator[Any]:
    """A mailbox actor for the length of the block; `receive` is called, in a thread, with each event."""
    import ray

    restarts = {"max_restarts": -1, "max_task_retries": -1}
    actor = ray.remote(num_cpus=0, scheduling_strategy=this_node(), **restarts)(Mailbox).remote()
    stop = threading.Event()

    def drain() -> None:
        for event in ray.get(actor.take.remote()):
            receive(event)

    def listen() -> None:
        while not stop.wait(every):
            with contextlib.suppress(ray.exceptions.RayError):  # such as while the head is down
                drain()

    thread = threading.Thread(target=listen, name="babelray-mailbox", daemon=True)
    thread.start()
    try:
        yield actor
    finally:
        stop.set()
        thread.join(timeout=30)
        with contextlib.suppress(ray.exceptions.RayError):
            drain()
        with contextlib.suppress(Exception):  # the actor, or the whole cluster, may have ended already
            ray.kill(actor)
