"""Applying the messages of a run to an MLflow server."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from babelray.storage import Location
from babelray.storage.artifact import git_commit
from babelray.tracking.client import already_exists, connect, http_status
from babelray.tracking.registry import register_encoder

Message = dict[str, Any]

RUN_TAG = "babelray.recipe.run"
"""The tag of the message that started a run: it finds a run whose creation succeeded although the answer was lost."""


class RefusedError(Exception):
    """The server rejects this message for good; sending it again is useless."""


class Sender:
    """Applies messages to an MLflow server."""

    def __init__(self, uri: str, experiment: str, runs: Mapping[str, str] | None = None, live: bool = True) -> None:
        """`live` is False for messages of an earlier run: its system metrics are not those of this machine."""
        self.uri, self.experiment, self.live = uri, experiment, live
        self.runs: dict[str, str] = dict(runs or {})
        """MLflow's ids of the started runs, by ours."""
        self._monitor: Any = None

    def send(self, message: Message) -> None:
        """Apply a message; sending it twice has no effect. `RefusedError` if the server rejects it for good."""
        from mlflow.exceptions import MlflowException

        try:
            getattr(self, f"_{message['kind']}")(message)
        except KeyError as error:
            raise RefusedError(f"{message['kind']} of an unknown run") from error
        except MlflowException as error:
            if http_status(error) in range(400, 500) and http_status(error) not in (401, 403, 408, 429):
                raise RefusedError(str(error)[:300]) from error
            raise

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.finish()

    @property
    def _client(self) -> Any:
        return connect(self.uri)

    @functools.cached_property
    def _experiment_id(self) -> str:
        from mlflow.exceptions import MlflowException

        experiment = self._client.get_experiment_by_name(self.experiment)
        if experiment is not None:
            return experiment.experiment_id
        location = None
        if self.uri.startswith("sqlite:///"):
            location = (
                Path(self.uri.removeprefix("sqlite:///")).parent / "mlflow-artifacts" / self.experiment
            ).as_uri()
        tags = {"mlflow.experimentKind": "custom_model_development"}  # its layout in the dashboard
        try:
            return self._client.create_experiment(self.experiment, artifact_location=location, tags=tags)
        except MlflowException as error:
            if already_exists(error):
                return self._client.get_experiment_by_name(self.experiment).experiment_id
            raise

    def _tags(self, message: Message) -> dict[str, str]:
        """The tags that identify a run."""
        tags = {"babelray.key": message["key"], "babelray.part": message["part"]}
        return tags | ({"mlflow.parentRunId": self.runs[message["parent"]]} if message["parent"] else {})

    def _find_run(self, message: Message) -> Any:
        """The run to resume, if there is one; a finished run or stage is not resumed."""
        if started := self._search(f"tags.`{RUN_TAG}` = '{message['run']}'"):
            return started
        same = " and ".join(f"tags.`{name}` = '{value}'" for name, value in self._tags(message).items())
        unfinished = " and attributes.status != 'FINISHED'" if message["part"] in ("run", "stage") else ""
        return self._search(same + unfinished)

    def _search(self, condition: str) -> Any:
        return next(iter(self._client.search_runs([self._experiment_id], condition, max_results=1)), None)

    def _start(self, message: Message) -> None:
        run = self._find_run(message)
        if run:
            self._client.update_run(run.info.run_id, status="RUNNING")
            self._client.set_tag(run.info.run_id, RUN_TAG, message["run"])
        else:
            tags = self._tags(message) | {RUN_TAG: message["run"]}
            if commit := _commit():
                tags["mlflow.source.git.commit"] = commit
            attributes = {"start_time": message["time"], "tags": tags, "run_name": message["name"]}
            run = self._client.create_run(self._experiment_id, **attributes)
        if not run.data.params:
            self._log_parameters(run.info.run_id, message["parameters"])
        self.runs[message["run"]] = run.info.run_id
        if self.live and not message["parent"] and self._monitor is None:
            self._start_monitor(run.info.run_id)

    def _settle(self, message: Message) -> None:
        """Correct the status of a finished trial, if the driver was killed before it could."""
        run = self._find_run(message)
        if run is None or run.info.status != message["status"]:
            self._start(message)
            self._metrics(message)
            self._end(message)

    def _start_monitor(self, run_id: str) -> None:
        """System metrics of the driver's machine, on the parent run."""
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        self._monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=self.uri)
        self._monitor.start()

    def _log_parameters(self, run_id: str, parameters: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        rows = [Param(name[:250], str(value)[:6000]) for name, value in parameters.items()]
        for start in range(0, len(rows), 100):
            self._client.log_batch(run_id, params=rows[start : start + 100])

    def _metrics(self, message: Message) -> None:
        from mlflow.entities import Metric

        rows = [Metric(name, float(v), message["time"], message["step"] or 0) for name, v in message["values"].items()]
        self._client.log_batch(self.runs[message["run"]], metrics=rows)

    def _text(self, message: Message) -> None:
        self._client.log_text(self.runs[message["run"]], message["text"], message["name"])

    def _file(self, message: Message) -> None:
        with _existing(message).local_input() as path:
            self._client.log_artifact(self.runs[message["run"]], str(path))

    def _register(self, message: Message) -> None:
        encoder, run_id = _existing(message), self.runs[message["run"]]
        register_encoder(self._client, message["name"], message["alias"], encoder, message["key"], run_id)

    def _end(self, message: Message) -> None:
        self._client.set_terminated(self.runs[message["run"]], message["status"], end_time=message["time"])


def _existing(message: Message) -> Location:
    """The file or folder of a message."""
    location = Location(message["location"])
    if not location.exists():
        raise RefusedError(f"{location} no longer exists")
    return location


@functools.cache
def _commit() -> str | None:
    return git_commit()
