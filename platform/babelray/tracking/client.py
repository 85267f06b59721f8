"""Connecting to an MLflow server, and reading its errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from babelray.packages import MissingPackageError, explain_missing


class NoServerError(Exception):
    """There is no server to send to."""


def connect(uri: str) -> Any:
    """A client of the server, or of a SQLite file. It does not retry and times out early: callers retry themselves."""
    if not uri:
        raise NoServerError
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
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # it raises what it would log
    with explain_missing("MLflow's registry"):
        import mlflow

    if uri.startswith("sqlite:///"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    return mlflow.MlflowClient(uri)


def describe_error(error: Exception) -> str:
    """The cause of an error in a few words, without passwords."""
    if isinstance(error, NoServerError):
        return "this job has no MLFLOW_TRACKING_URI, and its working folder is deleted at its end"
    if isinstance(error, ModuleNotFoundError | MissingPackageError):
        return "MLflow is not installed (pip install mlflow)"
    if http_status(error) == 401:
        return "MLflow rejects the user or the password (MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD)"
    if is_forbidden(error):
        return "MLflow does not permit this to the user (MLFLOW_TRACKING_USERNAME)"
    return f"MLflow does not answer ({type(error).__name__})"


def is_forbidden(error: Exception) -> bool:
    """Whether the user is authenticated but lacks the permission."""
    return http_status(error) == 403


def already_exists(error: Exception) -> bool:
    """Whether another process has just created the same thing."""
    return getattr(error, "error_code", "") == "RESOURCE_ALREADY_EXISTS"


def http_status(error: Exception) -> int:
    status = getattr(error, "get_http_status_code", None)
    return status() if status else 0
