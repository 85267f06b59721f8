"""Tracking with MLflow: one run for each recipe run, with one child run per stage.

A thread sends all messages in order. While the server is unavailable they are saved in `<storage>/unsent/`, and the run
continues; they are sent when the server answers again, by this run or by a later one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from babelray.errors import BabelrayError, DataError
from babelray.storage import Location
from babelray.tracking.client import connect, describe_error, is_forbidden
from babelray.tracking.registry import NEWEST, find_version, has_alias
from babelray.tracking.sender import Message, RefusedError, Sender

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.storage.artifact import Artifact
    from babelray.tracking.description import RunDescription

RETRY_SECONDS = 10.0
"""Time between two attempts to reach a server that does not answer."""
SAVE_SECONDS = 2.0
"""Least time between two copies of the unsent messages, which limits writing during a long outage."""


def tracking_uri(storage: str) -> str:
    """MLFLOW_TRACKING_URI, or a SQLite file beside the artifacts; in the current folder when these are not local.

    Empty in a job whose artifacts are not local: its current folder is deleted at its end.
    """
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return uri
    location = Location.parse(storage)
    if location.is_s3 and "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
        return ""
    return f"sqlite:///{(Path.cwd() if location.is_s3 else location.path) / 'mlflow.db'}"


class Tracker:
    """The MLflow run of one recipe run. Errors of tracking never fail the run."""

    def __init__(self, description: RunDescription, console: Console) -> None:
        self.console = console
        self.unsent = Location.parse(description.storage) / "unsent"
        self.uri = tracking_uri(description.storage)
        self.experiment = description.experiment
        self.run = uuid.uuid4().hex
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self._file = self.unsent / f"{int(time.time() * 1000)}-{self.run}.jsonl"
        self._unavailable = False
        self._has_earlier = True
        self._thread = threading.Thread(target=self._send_all, name="babelray-tracking", daemon=True)

    @classmethod
    def start(cls, description: RunDescription, key: str, console: Console, part: str = "run") -> Tracker:
        """Start a run, or resume the unfinished one with the same key; a sweep is always resumed."""
        tracker = cls(description, console)
        tracker._thread.start()
        identity = {"name": description.name, "key": key, "part": part, "parent": None}
        tracker._put("start", tracker.run, **identity, parameters=dict(description.parameters))
        tracker._put("text", tracker.run, name="recipe.yaml", text=description.recipe)
        return tracker

    @classmethod
    @contextlib.contextmanager
    def open(cls, description: RunDescription, key: str, console: Console, part: str = "run") -> Iterator[Tracker]:
        """`start` a run that ends with the block, with the status of the block."""
        tracker = cls.start(description, key, console, part)
        with _end_with_status(tracker):
            yield tracker

    @contextlib.contextmanager
    def stage(self, name: str, fingerprint: str, code: str) -> Iterator[StageRun]:
        """The child run of a stage."""
        child = StageRun(self, uuid.uuid4().hex)
        parameters = {f"{name}.fingerprint": fingerprint, f"{name}.code": code}
        identity = {"name": name, "key": fingerprint, "part": "stage", "parent": self.run}
        self._put("start", child.run, **identity, parameters=parameters)
        with _end_with_status(child):
            yield child

    def trial(self, name: str, key: str, parameters: Mapping[str, Any]) -> ChildRun:
        """The child run of a sweep's trial: a new one, or the existing one with the same key."""
        child = ChildRun(self, uuid.uuid4().hex)
        identity = {"name": name, "key": key, "part": "trial", "parent": self.run}
        self._put("start", child.run, **identity, parameters=dict(parameters))
        return child

    def settle(
        self, name: str, key: str, parameters: Mapping[str, Any], values: Mapping[str, float], status: str
    ) -> None:
        """Make sure that the run of a finished trial exists and has its status."""
        identity = {"name": name, "key": key, "part": "trial", "parent": self.run, "status": status}
        self._put("settle", uuid.uuid4().hex, **identity, parameters=dict(parameters), values=dict(values), step=None)

    def file(self, location: Location) -> None:
        self._put("file", self.run, location=str(location))

    def metrics(self, values: Mapping[str, float]) -> None:
        self._put("metrics", self.run, values=dict(values), step=None)

    def register(self, name: str, pretrained: Artifact) -> None:
        """Register the encoder of an artifact in the model registry, as `NAME` or `NAME@ALIAS`."""
        name, _, alias = name.partition("@")
        identity = {"name": name, "alias": alias or NEWEST, "key": pretrained.manifest["fingerprint"]}
        self._put("register", self.run, location=str(pretrained.location / "encoder"), **identity)

    def end(self, status: str) -> None:
        """End the run, and wait until every message is sent or saved."""
        self._put("end", self.run, status=status)
        self._messages.put(None)
        self._thread.join(timeout=3600)

    def _put(self, kind: str, run: str, **content: Any) -> None:
        self._messages.put({"kind": kind, "run": run, "time": int(time.time() * 1000), **content})

    def _send_all(self) -> None:
        """The thread: send each message; save those that cannot be sent, and try again."""
        sender = Sender(self.uri, self.experiment)
        waiting: list[Message] = []
        next_attempt = next_save = 0.0
        unsaved, ended = False, False
        while not ended:
            messages = self._receive(timeout=1.0 if self._unavailable else None)
            ended = None in messages
            waiting += [message for message in messages if message is not None]
            unsaved = unsaved or bool(messages)
            if ended or time.monotonic() >= next_attempt:
                if self._send_waiting(sender, waiting):
                    unsaved = False
                    continue
                next_attempt = time.monotonic() + RETRY_SECONDS
            if unsaved and (ended or time.monotonic() >= next_save):
                self._save(sender, waiting)
                unsaved = False
                next_save = time.monotonic() + SAVE_SECONDS
        sender.close()

    def _receive(self, timeout: float | None) -> list[Message | None]:
        """All messages in the queue, after waiting for the first one."""
        messages: list[Message | None] = []
        with contextlib.suppress(queue.Empty):
            messages.append(self._messages.get(timeout=timeout))
            while True:
                messages.append(self._messages.get_nowait())
        return messages

    def _send_waiting(self, sender: Sender, waiting: list[Message]) -> bool:
        """Send the saved messages of earlier runs, then those that wait; False if the server is unavailable."""
        try:
            if self._has_earlier:
                self._send_earlier()
                self._has_earlier = False
            while waiting:
                self._send(sender, waiting[0])
                waiting.pop(0)
            if self._unavailable:
                self._file.delete()
                self._unavailable = False
                self.console.print("  MLflow answers again; all messages are sent")
        except Exception as error:
            if not self._unavailable:
                self._unavailable = True
                self._warn(error)
            return False
        return True

    def _send(self, sender: Sender, message: Message) -> None:
        try:
            sender.send(message)
        except RefusedError as error:
            self.console.print(f"[yellow]![/] MLflow refuses a part of the run: {error}", soft_wrap=True)

    def _send_earlier(self) -> None:
        for name in self.unsent.files():
            file = self.unsent / name
            if not name.endswith(".jsonl") or file == self._file:
                continue
            try:
                header, *messages = map(json.loads, file.read_text().splitlines())
                sender = Sender(self.uri, header["experiment"], header.get("runs", {}), live=False)
            except (ValueError, KeyError, DataError):
                self.console.print(f"[yellow]![/] {file} is damaged and not sent to MLflow", soft_wrap=True)
                continue
            try:
                for message in messages:
                    self._send(sender, message)
            except Exception as error:
                if is_forbidden(error):  # messages of another user
                    continue
                raise
            file.delete()
            self.console.print(f"  sent {len(messages)} saved messages of an earlier run to MLflow")

    def _save(self, sender: Sender, messages: list[Message]) -> None:
        rows = [{"experiment": self.experiment, "runs": sender.runs}, *messages]
        with contextlib.suppress(BabelrayError):
            self._file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def _warn(self, error: Exception) -> None:
        self.console.print(
            f"[yellow]![/] {describe_error(error)}; the run continues, its metrics are saved in {self.unsent} "
            "until MLflow accepts them",
            soft_wrap=True,
        )


def is_registered(name: str, pretrained: Artifact, storage: str, console: Console) -> bool:
    """Whether the registry has this encoder under this name and alias; True, with a warning, if it does not answer."""
    name, _, alias = name.partition("@")
    try:
        mlflow = connect(tracking_uri(storage))
        version = find_version(mlflow, name, pretrained.manifest["fingerprint"])
        return version is not None and has_alias(mlflow, name, version, alias or NEWEST)
    except Exception as error:
        console.print(
            f"[yellow]![/] {describe_error(error)}; cannot check whether the encoder is registered", soft_wrap=True
        )
        return True


@contextlib.contextmanager
def _end_with_status(run: Tracker | ChildRun) -> Iterator[None]:
    """End a run with the status of the block."""
    status = "FAILED"
    try:
        yield
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        run.end(status)


class ChildRun:
    """A run below the tracker's own."""

    def __init__(self, tracker: Tracker, run: str) -> None:
        self._tracker = tracker
        self.run = run

    def metrics(self, values: Mapping[str, float], step: int | None) -> None:
        self._tracker._put("metrics", self.run, values=dict(values), step=step)

    def text(self, name: str, text: str) -> None:
        self._tracker._put("text", self.run, name=name, text=text)

    def end(self, status: str) -> None:
        self._tracker._put("end", self.run, status=status)


class StageRun(ChildRun):
    """The run of a stage."""

    def finish(self, artifact: Artifact, scores_run: bool = False) -> None:
        """Send the manifest, the metrics (to the whole run too if they are its scores), and HTML pages."""
        values = {name: v for name, v in artifact.metrics.items() if isinstance(v, (int, float))}
        values["seconds"] = artifact.manifest["seconds"]
        self.metrics(values, None)
        self.text("manifest.json", json.dumps(artifact.manifest, indent=2))
        if scores_run:
            self._tracker.metrics(values)
        for name in artifact.manifest["files"]:
            if name.endswith(".html"):
                self._tracker.file(artifact.location / name)
