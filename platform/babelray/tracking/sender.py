"""What is told of a run, as an MLflow server takes it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from babelray.storage import Place

Message = dict[str, Any]

BEGUN = "babelray.run"
"""The tag by which a run is found that was begun by a message whose answer got lost."""


class RefusedError(Exception):
    """The server will not take this message, now or later."""


class NowhereError(Exception):
    """There is no server to send to."""


def client(uri: str) -> Any:
    """A client of the server, or of a SQLite file, with little patience: who calls it has its own."""
    if not uri:
        raise NowhereError
    defaults = {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_LOGGING_LEVEL": "CRITICAL",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    import logging

    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # what it would log, it raises too
    import mlflow

    if uri.startswith("sqlite:///"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    return mlflow.MlflowClient(uri)


def reason(error: Exception) -> str:
    """Why it could not be sent, in a few words that hold no password."""
    if isinstance(error, NowhereError):
        return "this job has no MLFLOW_TRACKING_URI, and its own folder is deleted with it"
    if _status(error) == 401:
        return "MLflow does not know the user or the password (MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD)"
    if is_forbidden(error):
        return "MLflow does not permit this to the user (MLFLOW_TRACKING_USERNAME)"
    return f"MLflow does not answer ({type(error).__name__})"


def is_forbidden(error: Exception) -> bool:
    """Whether the server knows the user, who may not do this."""
    return _status(error) == 403


def is_there_already(error: Exception) -> bool:
    """Whether another one was a moment faster."""
    return getattr(error, "error_code", "") == "RESOURCE_ALREADY_EXISTS"


def _status(error: Exception) -> int:
    status = getattr(error, "get_http_status_code", None)
    return status() if status else 0


class Sender:
    """Applies messages to an MLflow server."""

    def __init__(self, uri: str, experiment: str, runs: Mapping[str, str] | None = None, now: bool = True) -> None:
        """`now` is False for runs that are over: this machine's load is not theirs."""
        self.uri, self.experiment, self.now = uri, experiment, now
        self.runs: dict[str, str] = dict(runs or {})
        """MLflow's names of the runs that were begun."""
        self._monitor: Any = None

    def send(self, message: Message) -> None:
        """Apply a message; doing so twice changes nothing. `RefusedError` if the server will never take it."""
        from mlflow.exceptions import MlflowException

        try:
            getattr(self, f"_{message['kind']}")(message)
        except KeyError as error:
            raise RefusedError(f"{message['kind']} of a run that it does not know") from error
        except MlflowException as error:
            if _status(error) in range(400, 500) and _status(error) not in (401, 403, 408, 429):
                raise RefusedError(str(error)[:300]) from error
            raise

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.finish()

    @property
    def _client(self) -> Any:
        return client(self.uri)

    @functools.cached_property
    def _experiment_id(self) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(self.experiment)
        if found is not None:
            return found.experiment_id
        location = None
        if self.uri.startswith("sqlite:///"):
            location = (
                Path(self.uri.removeprefix("sqlite:///")).parent / "mlflow-artifacts" / self.experiment
            ).as_uri()
        tags = {"mlflow.experimentKind": "custom_model_development"}  # how the dashboard shows it
        try:
            return self._client.create_experiment(self.experiment, artifact_location=location, tags=tags)
        except MlflowException as error:
            if is_there_already(error):
                return self._client.get_experiment_by_name(self.experiment).experiment_id
            raise

    def _tags(self, message: Message) -> dict[str, str]:
        """What a run is found by."""
        tags = {"babelray.key": message["key"], "babelray.part": message["part"]}
        return tags | ({"mlflow.parentRunId": self.runs[message["parent"]]} if message["parent"] else {})

    def _found(self, message: Message) -> Any:
        """The run that was begun before, if there is one; a run or stage that has finished is over."""
        if begun := self._search(f"tags.`{BEGUN}` = '{message['run']}'"):
            return begun
        same = " and ".join(f"tags.`{name}` = '{value}'" for name, value in self._tags(message).items())
        new = " and attributes.status != 'FINISHED'" if message["part"] in ("run", "stage") else ""
        return self._search(same + new)

    def _search(self, condition: str) -> Any:
        return next(iter(self._client.search_runs([self._experiment_id], condition, max_results=1)), None)

    def _start(self, message: Message) -> None:
        run = self._found(message)
        if run:
            self._client.update_run(run.info.run_id, status="RUNNING")
            self._client.set_tag(run.info.run_id, BEGUN, message["run"])
        else:
            tags = self._tags(message) | {BEGUN: message["run"]}
            if commit := _commit():
                tags["mlflow.source.git.commit"] = commit
            about = {"start_time": message["time"], "tags": tags, "run_name": message["name"]}
            run = self._client.create_run(self._experiment_id, **about)
        if not run.data.params:
            self._log(run.info.run_id, params=message["parameters"])
        self.runs[message["run"]] = run.info.run_id
        if self.now and not message["parent"] and self._monitor is None:
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
        self._client.log_batch(self.runs[message["run"]], metrics=rows)

    def _text(self, message: Message) -> None:
        self._client.log_text(self.runs[message["run"]], message["text"], message["name"])

    def _file(self, message: Message) -> None:
        place = Place(message["place"])
        if not place.exists():
            raise RefusedError(f"{place} is not there any more")
        with place.local_input() as path:
            self._client.log_artifact(self.runs[message["run"]], str(path))

    def _register(self, message: Message) -> None:
        from babelray.tracking.registry import register

        place = Place(message["place"])
        if not place.exists():
            raise RefusedError(f"{place} is not there any more")
        register(self._client, message["name"], message["alias"], place, message["key"], self.runs[message["run"]])

    def _end(self, message: Message) -> None:
        self._client.set_terminated(self.runs[message["run"]], message["status"], end_time=message["time"])


@functools.cache
def _commit() -> str | None:
    from babelray.stages.artifact import git_commit

    return git_commit()
