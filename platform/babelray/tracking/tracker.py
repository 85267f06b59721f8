"""MLflow: one run a recipe run, a child a stage. A server that is down costs nothing but the view.

Every message is sent by a thread, in order. While the server does not take them they are kept in
`<storage>/unsent/`; they are sent when it answers again, by this run or by the next one.
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
from babelray.storage import Place
from babelray.tracking.registry import NEWEST, alias_of, registered
from babelray.tracking.sender import Message, RefusedError, Sender, client, is_forbidden, reason

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.run import Run
    from babelray.stages.artifact import Artifact
    from babelray.stages.pipeline import Step

AGAIN = 10.0
"""Seconds until a server that did not answer is asked again."""
KEEP = 2.0
"""Seconds between two copies of what waits, so that a long outage does not write the same again and again."""


def tracking_uri(storage: str) -> str:
    """MLFLOW_TRACKING_URI, or a SQLite file beside the artifacts; in the current folder when these are not local.

    Empty in a job whose artifacts are not local: its current folder is deleted with it.
    """
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return uri
    place = Place.parse(storage)
    if place.is_s3 and "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
        return ""
    return f"sqlite:///{(Path.cwd() if place.is_s3 else place.path) / 'mlflow.db'}"


class Tracker:
    """The MLflow run of one recipe run. Nothing it does can fail a run."""

    def __init__(self, recipe: Run, console: Console) -> None:
        self.console = console
        self.unsent = Place.parse(recipe.storage) / "unsent"
        self.uri = tracking_uri(recipe.storage)
        self.experiment = recipe.experiment or recipe.name
        self.run = uuid.uuid4().hex
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self._kept = self.unsent / f"{int(time.time() * 1000)}-{self.run}.jsonl"
        self._down = False
        self._earlier = True
        self._thread = threading.Thread(target=self._send_all, name="babelray-tracking", daemon=True)

    @classmethod
    def start(cls, recipe: Run, fingerprint: str, console: Console, part: str = "run") -> Tracker:
        """Open the run; one with the same fingerprint that did not finish is taken up again, a sweep's in any case."""
        tracker = cls(recipe, console)
        tracker._thread.start()
        about = {"name": recipe.name, "key": fingerprint, "part": part, "parent": None}
        tracker._put("start", tracker.run, **about, parameters=_flat(recipe))
        tracker._put("text", tracker.run, name="recipe.yaml", text=recipe.to_yaml())
        return tracker

    @contextlib.contextmanager
    def stage(self, name: str, step: Step) -> Iterator[StageRun]:
        """The child run of a stage."""
        child = StageRun(self, uuid.uuid4().hex)
        parameters = {f"{name}.fingerprint": step.fingerprint, f"{name}.code": step.code}
        about = {"name": name, "key": step.fingerprint, "part": "stage", "parent": self.run}
        self._put("start", child.run, **about, parameters=parameters)
        status = "FAILED"
        try:
            yield child
            status = "FINISHED"
        except KeyboardInterrupt:
            status = "KILLED"
            raise
        finally:
            child.end(status)

    def trial(self, name: str, key: str, parameters: Mapping[str, Any]) -> ChildRun:
        """The child run of a sweep's trial: a new one, or the one that it had before."""
        child = ChildRun(self, uuid.uuid4().hex)
        about = {"name": name, "key": key, "part": "trial", "parent": self.run}
        self._put("start", child.run, **about, parameters=dict(parameters))
        return child

    def settle(
        self, name: str, key: str, parameters: Mapping[str, Any], values: Mapping[str, float], status: str
    ) -> None:
        """A trial that was over before: its run says so, or is made to."""
        about = {"name": name, "key": key, "part": "trial", "parent": self.run, "status": status}
        self._put("settle", uuid.uuid4().hex, **about, parameters=dict(parameters), values=dict(values), step=None)

    def file(self, place: Place) -> None:
        self._put("file", self.run, place=str(place))

    def metrics(self, values: Mapping[str, float]) -> None:
        self._put("metrics", self.run, values=dict(values), step=None)

    def register(self, name: str, pretrained: Artifact) -> None:
        """Make the encoder of an artifact a version of a model in the registry: `NAME` or `NAME@ALIAS`."""
        name, _, alias = name.partition("@")
        about = {"name": name, "alias": alias or NEWEST, "key": pretrained.manifest["fingerprint"]}
        self._put("register", self.run, place=str(pretrained.place / "encoder"), **about)

    def end(self, status: str) -> None:
        """Close the run, and wait until everything is sent or kept."""
        self._put("end", self.run, status=status)
        self._messages.put(None)
        self._thread.join(timeout=3600)

    def _put(self, kind: str, run: str, **content: Any) -> None:
        self._messages.put({"kind": kind, "run": run, "time": int(time.time() * 1000), **content})

    def _send_all(self) -> None:
        """The thread: send each message; keep what the server does not take, and try again."""
        sender = Sender(self.uri, self.experiment)
        waiting: list[Message] = []
        again = kept = 0.0
        unkept = False
        going = True
        while going:
            arrived = self._take(patience=1.0 if self._down else None)
            going = None not in arrived
            waiting += [message for message in arrived if message is not None]
            unkept = unkept or bool(arrived)
            if not going or time.monotonic() >= again:
                if self._deliver(sender, waiting):
                    unkept = False
                    continue
                again = time.monotonic() + AGAIN
            if unkept and (not going or time.monotonic() >= kept):
                self._keep(sender, waiting)
                unkept = False
                kept = time.monotonic() + KEEP
        sender.close()

    def _take(self, patience: float | None) -> list[Message | None]:
        """All messages that are there; waits for one."""
        found: list[Message | None] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._messages.get(timeout=patience))
            while True:
                found.append(self._messages.get_nowait())
        return found

    def _deliver(self, sender: Sender, waiting: list[Message]) -> bool:
        """Send what waits, and before it what earlier runs could not send; False if the server does not take it."""
        try:
            if self._earlier:
                self._send_earlier()
                self._earlier = False
            while waiting:
                self._send(sender, waiting[0])
                waiting.pop(0)
            if self._down:
                self._kept.delete()
                self._down = False
                self.console.print("  MLflow answers again; it has everything")
        except Exception as error:
            if not self._down:
                self._down = True
                self._say(error)
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
            if not name.endswith(".jsonl") or file == self._kept:
                continue
            try:
                about, *messages = map(json.loads, file.read_text().splitlines())
                sender = Sender(self.uri, about["experiment"], about.get("runs", {}), now=False)
            except (ValueError, KeyError, DataError):
                self.console.print(f"[yellow]![/] {file} is damaged and not sent to MLflow", soft_wrap=True)
                continue
            try:
                for message in messages:
                    self._send(sender, message)
            except Exception as error:
                if is_forbidden(error):  # another user's
                    continue
                raise
            file.delete()
            self.console.print(f"  sent to MLflow what an earlier run had kept ({len(messages)} messages)")

    def _keep(self, sender: Sender, messages: list[Message]) -> None:
        rows = [{"experiment": self.experiment, "runs": sender.runs}, *messages]
        with contextlib.suppress(BabelrayError):
            self._kept.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def _say(self, error: Exception) -> None:
        self.console.print(
            f"[yellow]![/] {reason(error)}; the run goes on, its figures are kept in {self.unsent} "
            "until MLflow takes them",
            soft_wrap=True,
        )


def is_registered(name: str, pretrained: Artifact, storage: str, console: Console) -> bool:
    """Whether the registry has this encoder under this name and alias; if it cannot be asked, that is said."""
    name, _, alias = name.partition("@")
    try:
        mlflow = client(tracking_uri(storage))
        version = registered(mlflow, name, pretrained.manifest["fingerprint"])
        return version is not None and alias_of(mlflow, name, version, alias or NEWEST)
    except Exception as error:
        console.print(f"[yellow]![/] {reason(error)}; whether the encoder is registered is not known", soft_wrap=True)
        return True


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
    """What a stage can send."""

    def finish(self, artifact: Artifact) -> None:
        """The manifest, its figures, and the report if there is one."""
        values = {name: v for name, v in artifact.metrics.items() if isinstance(v, (int, float))}
        values["seconds"] = artifact.manifest["seconds"]
        self.metrics(values, None)
        self.text("manifest.json", json.dumps(artifact.manifest, indent=2))
        if artifact.manifest["stage"] == "evaluate":
            self._tracker.metrics(values)
        for name in artifact.manifest["files"]:
            if name.endswith(".html"):
                self._tracker.file(artifact.place / name)


def _flat(recipe: Run) -> dict[str, Any]:
    """The resolved recipe as dotted parameters."""
    found: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                walk(f"{path}.{key}" if path else key, below)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            for number, item in enumerate(value):
                walk(f"{path}.{item.get('kind', number)}", item)
        else:
            found[path] = " ".join(map(str, value)) if isinstance(value, list) else value

    walk("", recipe.model_dump(mode="json"))
    return found


def serve(storage: str, port: int) -> None:
    """The MLflow dashboard on this machine only, in place of this process."""
    uri = tracking_uri(storage)
    if not uri.startswith("sqlite:///"):
        raise BabelrayError("MLFLOW_TRACKING_URI names a server that runs already", "Open its address in a browser.")
    if not Path(uri.removeprefix("sqlite:///")).exists():
        raise BabelrayError(f"there are no tracked runs in {storage}", "Run a recipe first: make run")
    import sys

    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    command = ["-m", "mlflow", "server", "--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port)]
    os.execv(sys.executable, [sys.executable, *command])
