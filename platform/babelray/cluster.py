"""The Ray cluster that a run works on: one that is there (RAY_ADDRESS), or one that lives as long as the run."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from babelray.errors import ClusterError
from babelray.nodes import check_nodes, watched

if TYPE_CHECKING:
    from rich.console import Console

Event = dict[str, Any]


def connect() -> None:
    """Join the cluster that RAY_ADDRESS names; without it, start Ray on this machine only."""
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
            ray.init(address=address, runtime_env=_sent(), **quiet)
        else:
            ray.init(address="local", include_dashboard=False, **quiet)
    except Exception as error:  # Ray raises bare ones, such as when a busy machine does not start it in time
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        remedy = "Run the same command again; `babelray doctor` says what is wrong."
        raise ClusterError(f"cannot connect to Ray: {first}", remedy) from error
    if address and address != "local":
        try:
            check_nodes()
        except ClusterError:
            ray.shutdown()
            raise


DEFAULTS = {
    "RAY_TRAIN_V2_ENABLED": "1",
    # Train asks its workers how they are every two seconds, and only then sees that they have ended.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}


def _keep_local() -> None:
    """A Ray that is started here listens on 127.0.0.1 only; Ray reads that when it is imported."""
    if os.environ.get("RAY_ADDRESS", "local") in ("", "local"):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # of any system, in spite of its name


def _set_defaults() -> None:
    """Settings of Ray that are read from the environment; what the user has set is kept."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def _sent() -> dict[str, Any]:
    """What every node gets: this very code, whatever is installed there, and the settings of Ray.

    What the job was submitted with reaches the nodes anyhow; Ray refuses to be told twice.
    """
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}").get("runtime_env") or {}
    settings = {name: os.environ[name] for name in DEFAULTS if name not in (job.get("env_vars") or {})}
    sent: dict[str, Any] = {"env_vars": settings}
    if "py_modules" not in job:
        sent |= {"py_modules": [str(Path(__file__).resolve().parent)]}
        if "excludes" not in job:
            sent["excludes"] = ["__pycache__"]
    return sent


def _check_reachable(address: str) -> None:
    """Ray itself tries for minutes and then ends the process: look first."""
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
        ray.shutdown()


@contextlib.contextmanager
def session(console: Console) -> Iterator[None]:
    """Connected for the length of the block; a session within another leaves the connection as it was."""
    _keep_local()
    import ray

    if ray.is_initialized():
        yield
        return
    connect()
    try:
        with watched(lambda text: console.print(f"[yellow]![/] {text}", soft_wrap=True, highlight=False)):
            yield
    finally:
        disconnect()


def beside_this() -> Any:
    """The node of this process, for what asks for no CPU: Ray might place it on the head, which may have no storage."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


class Mailbox:
    """Where workers drop what the driver should show or track; the driver empties it while it waits."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._failed = False

    def put(self, event: Event) -> None:
        self._events.append(event)
        self._failed = self._failed or event["kind"] == "error"

    def failed(self) -> bool:
        """Whether a worker has met an error that would come again."""
        return self._failed

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events


@contextlib.contextmanager
def mailbox(receive: Callable[[Event], None], every: float = 0.3) -> Iterator[Any]:
    """A mailbox actor for the length of the block; `receive` is called, in a thread, with each event."""
    import ray

    again = {"max_restarts": -1, "max_task_retries": -1}
    actor = ray.remote(num_cpus=0, scheduling_strategy=beside_this(), **again)(Mailbox).remote()
    stop = threading.Event()

    def drain() -> None:
        for event in ray.get(actor.take.remote()):
            receive(event)

    def listen() -> None:
        while not stop.wait(every):
            with contextlib.suppress(ray.exceptions.RayError):  # such as while the head is away
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
        ray.kill(actor)
