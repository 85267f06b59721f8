"""MLflow's model registry: trained encoders by name, each version with its files, and aliases such as `champion`.

`models:/NAME@ALIAS` and `models:/NAME/VERSION` are accepted wherever the folder of an encoder is. Nothing is pickled: a
version is a folder written by `save_pretrained`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from babelray.errors import DataError
from babelray.storage import Location
from babelray.tracking.client import already_exists, connect, describe_error, http_status

SCHEME = "models:/"
FOLDER = "encoder"
NEWEST = "newest"
"""The alias of a recipe that names none."""
TAG = "babelray.fingerprint"
_ALIAS = re.compile(r"models:/([A-Za-z0-9][A-Za-z0-9._-]*)@([A-Za-z][A-Za-z0-9_-]*)")
_VERSION = re.compile(r"models:/([A-Za-z0-9][A-Za-z0-9._-]*)/([0-9]+)")


def register_encoder(client: Any, name: str, alias: str, location: Location, key: str, run_id: str) -> str:
    """Register an encoder as a version of a model, unless it is one, and set the alias; returns the version."""
    version = find_version(client, name, key)
    if version is None:
        with location.local_input() as folder:
            client.log_artifacts(run_id, str(folder), FOLDER)
        _create_model(client, name)
        source = f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}"
        version = client.create_model_version(name, source, run_id, tags={TAG: key}).version
    client.set_registered_model_alias(name, alias, version)
    return str(version)


def _create_model(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    if client.search_registered_models(f"name = '{name}'"):
        return
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if not already_exists(error):
            raise


def find_version(client: Any, name: str, key: str) -> str | None:
    """The version of the encoder with this fingerprint; None if it is not registered."""
    versions = client.search_model_versions(f"name = '{name}'")
    return next((str(version.version) for version in versions if version.tags.get(TAG) == key), None)


def has_alias(client: Any, name: str, version: str, alias: str) -> bool:
    """Whether the alias points to this version."""
    return str(client.get_registered_model(name).aliases.get(alias, "")) == str(version)


def resolve_alias(path: str, uri: str) -> str:
    """The version that an alias points to now, so that a run always uses the same; any other path unchanged."""
    if not path.startswith(SCHEME):
        return path
    if _VERSION.fullmatch(path):
        return path
    match = _ALIAS.fullmatch(path)
    if match is None:
        raise DataError(f"cannot understand {path!r}", "Write models:/NAME@ALIAS or models:/NAME/VERSION.")
    with _readable_errors(path):
        version = connect(uri).get_model_version_by_alias(*match.groups()).version
    return f"{SCHEME}{match[1]}/{version}"


def download_version(path: str, uri: str) -> str:
    """A local folder with the files of a version, cached."""
    name, version = resolve_alias(path, uri).removeprefix(SCHEME).split("/")
    server = hashlib.sha256(uri.rpartition("@")[2].encode()).hexdigest()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "babelray" / "models" / server
    folder = cache / name / version
    if folder.is_dir():
        return str(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=f".{version}-", dir=folder.parent)
    try:
        with _readable_errors(path):
            _download(connect(uri), uri, name, version, temporary)
        if not folder.is_dir():
            Path(temporary).rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return str(folder)


def _download(client: Any, uri: str, name: str, version: str, folder: str) -> None:
    from mlflow.artifacts import download_artifacts

    source = client.get_model_version_download_uri(name, version)
    download_artifacts(artifact_uri=source, dst_path=folder, tracking_uri=uri)
    if not (Path(folder) / "config.json").exists():
        (inner,) = Path(folder).iterdir()  # MLflow may add the last part of the source's path
        for file in inner.iterdir():
            file.rename(Path(folder) / file.name)
        inner.rmdir()


@contextlib.contextmanager
def _readable_errors(path: str) -> Iterator[None]:
    """Turn errors of MLflow into a DataError about this path."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        missing = http_status(error) in (400, 404)
        problem = "there is no such model, version or alias" if missing else describe_error(error)
        raise DataError(
            f"cannot fetch {path}: {problem}",
            "Check the name and MLFLOW_TRACKING_URI; the MLflow dashboard lists the registered models.",
        ) from error
