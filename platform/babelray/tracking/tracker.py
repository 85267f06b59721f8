"""MLflow: one run a recipe run, a child a stage. A server that is down costs nothing but the view.

Every message is sent by a thread, in order. When the server does not take one, it and all that follow are kept
in `<storage>/unsent/`, and the next run sends them first.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from babelray.errors import BabelrayError
from babelray.storage import Place

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.run import Run
    from babelray.stages.artifact import Artifact
    from babelray.stages.pipeline import Step

Message = dict[str, Any]


def tracking_uri(storage: str) -> str:
    """MLFLOW_TRACKING_URI, or a SQLite file beside the artifacts."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{_local_folder(storage) / 'mlflow.db'}"


def _local_folder(storage: str) -> Path:
    """Where files of the tracking go: the storage, or the current folder when the storage is not local."""
    place = Place.parse(storage)
    return Path.cwd() if place.is_s3 else place.path


class Tracker:
    """The MLflow run of one recipe run. Nothing it does can fail a run."""

    def __init__(self, recipe: Run, console: Console) -> None:
        self.console = console
        self.folder = _local_folder(recipe.storage)
        self.uri = tracking_uri(recipe.storage)
        self.experiment = recipe.experiment or recipe.name
        self.run = uuid.uuid4().hex
        self._messages: queue.Queue[Message | None] = queue.Queue()
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

    def end(self, status: str) -> None:
        """Close the run, and wait until everything is sent or kept."""
        self._put("end", self.run, status=status)
        self._messages.put(None)
        self._thread.join(timeout=120)

    def _put(self, kind: str, run: str, **content: Any) -> None:
        self._messages.put({"kind": kind, "run": run, "time": int(time.time() * 1000), **content})

    def _send_all(self) -> None:
        """The thread: send each message; after the first failure keep them all."""
        sender = Sender(self.uri, self.experiment, self.folder)
        working = self._send_unsent(sender)
        kept: list[Message] = []
        while (message := self._messages.get()) is not None:
            if working:
                try:
                    sender.send(message)
                    continue
                except Exception as error:
                    working = False
                    self._say(error)
            kept.append(message)
            self._keep(kept)
        sender.close()

    def _send_unsent(self, sender: Sender) -> bool:
        """First what earlier runs could not send; False if the server still does not answer."""
        for file in sorted((self.folder / "unsent").glob("*.jsonl")):
            lines = file.read_text(encoding="utf-8").splitlines()
            earlier = Sender(self.uri, json.loads(lines[0])["experiment"], self.folder)
            try:
                for line in lines[1:]:
                    earlier.send(json.loads(line))
            except Exception as error:
                self._say(error)
                return False
            file.unlink()
            self.console.print(f"  sent to MLflow what an earlier run had kept ({len(lines) - 1} messages)")
        return True

    def _keep(self, messages: list[Message]) -> None:
        file = self.folder / "unsent" / f"{self.run}.jsonl"
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            rows = [{"experiment": self.experiment}, *messages]
            temporary = file.with_suffix(".writing")
            temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            os.replace(temporary, file)

    def _say(self, error: Exception) -> None:
        self.console.print(
            f"[yellow]![/] MLflow does not answer ({type(error).__name__}); the run goes on, its figures are kept in "
            f"{self.folder / 'unsent'} and sent by the next run",
            soft_wrap=True,
        )


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


class Sender:
    """Applies messages to an MLflow server."""

    def __init__(self, uri: str, experiment: str, folder: Path) -> None:
        self.uri, self.experiment, self.folder = uri, experiment, folder
        self._runs: dict[str, str] = {}
        self._monitor: Any = None

    def send(self, message: Message) -> None:
        getattr(self, f"_{message['kind']}")(message)

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.finish()

    @property
    def _client(self) -> Any:
        defaults = {
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
            "MLFLOW_LOGGING_LEVEL": "ERROR",
        }
        for name, value in defaults.items():
            os.environ.setdefault(name, value)
        import logging

        logging.getLogger("alembic").setLevel(logging.WARNING)
        logging.getLogger("mlflow").setLevel(logging.ERROR)
        import mlflow

        if self.uri.startswith("sqlite:///"):
            Path(self.uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        return mlflow.MlflowClient(self.uri)

    def _experiment_id(self) -> str:
        found = self._client.get_experiment_by_name(self.experiment)
        if found is not None:
            return found.experiment_id
        local = self.uri.startswith("sqlite:///")
        location = (self.folder / "mlflow-artifacts" / self.experiment).as_uri() if local else None
        tags = {"mlflow.experimentKind": "custom_model_development"}  # how the dashboard shows it
        return self._client.create_experiment(self.experiment, artifact_location=location, tags=tags)

    def _tags(self, message: Message) -> dict[str, str]:
        """What a run is found by."""
        tags = {"babelray.key": message["key"], "babelray.part": message["part"]}
        return tags | ({"mlflow.parentRunId": self._runs[message["parent"]]} if message["parent"] else {})

    def _found(self, message: Message) -> Any:
        """The run that was begun before, if there is one; a run or stage that has finished is over."""
        same = " and ".join(f"tags.`{name}` = '{value}'" for name, value in self._tags(message).items())
        new = " and attributes.status != 'FINISHED'" if message["part"] in ("run", "stage") else ""
        return next(iter(self._client.search_runs([self._experiment_id()], same + new, max_results=1)), None)

    def _start(self, message: Message) -> None:
        run = self._found(message)
        if run:
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            tags = self._tags(message)
            if commit := _commit():
                tags["mlflow.source.git.commit"] = commit
            about = {"start_time": message["time"], "tags": tags, "run_name": message["name"]}
            run = self._client.create_run(self._experiment_id(), **about)
        if not run.data.params:
            self._log(run.info.run_id, params=message["parameters"])
        self._runs[message["run"]] = run.info.run_id
        if not message["parent"] and self._monitor is None:
            self._watch(run.info.run_id)

    def _settle(self, message: Message) -> None:
        """Say again how a trial ended, if the driver was killed before it could."""
        run = self._found(message)
        if run is None or run.info.status != message["status"]:
            self._start(message)
            self._metrics(message)
            self._end(message)

    def _watch(self, run_id: str) -> None:
        """System metrics of the driver's machine, on the parent run."""
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        self._monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=self.uri)
        self._monitor.start()

    def _log(self, run_id: str, params: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        rows = [Param(name[:250], str(value)[:6000]) for name, value in params.items()]
        for start in range(0, len(rows), 100):
            self._client.log_batch(run_id, params=rows[start : start + 100])

    def _metrics(self, message: Message) -> None:
        from mlflow.entities import Metric

        rows = [Metric(name, float(v), message["time"], message["step"] or 0) for name, v in message["values"].items()]
        self._client.log_batch(self._runs[message["run"]], metrics=rows)

    def _text(self, message: Message) -> None:
        self._client.log_text(self._runs[message["run"]], message["text"], message["name"])

    def _file(self, message: Message) -> None:
        with Place(message["place"]).local_input() as path:
            self._client.log_artifact(self._runs[message["run"]], str(path))

    def _end(self, message: Message) -> None:
        self._client.set_terminated(self._runs[message["run"]], message["status"], end_time=message["time"])


@functools.cache
def _commit() -> str | None:
    from babelray.stages.artifact import git_commit

    return git_commit()


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
