"""MLflow's model registry: trained encoders by name, each version with its files, and names such as `champion` for one.

`models:/NAME@ALIAS` and `models:/NAME/VERSION` stand for an encoder wherever a folder does. Nothing is pickled: a
version is the folder that `save_pretrained` left.
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
from babelray.storage import Place

SCHEME = "models:/"
FOLDER = "encoder"
NEWEST = "newest"
"""The alias of a recipe that names none."""
TAG = "babelray.fingerprint"
_ALIAS = re.compile(r"models:/([A-Za-z0-9][A-Za-z0-9._-]*)@([A-Za-z][A-Za-z0-9_-]*)")
_VERSION = re.compile(r"models:/([A-Za-z0-9][A-Za-z0-9._-]*)/([0-9]+)")


def register(client: Any, name: str, alias: str, place: Place, key: str, run_id: str) -> str:
    """Make an encoder a version of a model, unless it is one, and give it the alias; returns the version."""
    version = registered(client, name, key)
    if version is None:
        with place.local_input() as folder:
            client.log_artifacts(run_id, str(folder), FOLDER)
        _make_model(client, name)
        source = f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}"
        version = client.create_model_version(name, source, run_id, tags={TAG: key}).version
    client.set_registered_model_alias(name, alias, version)
    return str(version)


def _make_model(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    from babelray.tracking.sender import is_there_already

    if client.search_registered_models(f"name = '{name}'"):
        return
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if not is_there_already(error):
            raise


def registered(client: Any, name: str, key: str) -> str | None:
    """The version that holds the encoder with this fingerprint."""
    found = client.search_model_versions(f"name = '{name}'")
    return next((str(version.version) for version in found if version.tags.get(TAG) == key), None)


def alias_of(client: Any, name: str, version: str, alias: str) -> bool:
    """Whether the alias stands for this version."""
    return str(client.get_registered_model(name).aliases.get(alias, "")) == str(version)


def resolved(path: str, uri: str) -> str:
    """The version that an alias stands for now, so that a run is always of one; any other path as it is."""
    if not path.startswith(SCHEME):
        return path
    if _VERSION.fullmatch(path):
        return path
    named = _ALIAS.fullmatch(path)
    if named is None:
        raise DataError(f"cannot understand {path!r}", "Write models:/NAME@ALIAS or models:/NAME/VERSION.")
    with _explained(path):
        version = _client(uri).get_model_version_by_alias(*named.groups()).version
    return f"{SCHEME}{named[1]}/{version}"


def fetched(path: str, uri: str) -> str:
    """A local folder with the files of a version, kept for the next time."""
    exact = resolved(path, uri)
    name, version = exact.removeprefix(SCHEME).split("/")
    server = hashlib.sha256(uri.rpartition("@")[2].encode()).hexdigest()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "babelray" / "models" / server
    folder = cache / name / version
    if folder.is_dir():
        return str(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=f".{version}-", dir=folder.parent)
    try:
        with _explained(path):
            _download(_client(uri), uri, name, version, temporary)
        if not folder.is_dir():
            Path(temporary).rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return str(folder)


def _client(uri: str) -> Any:
    from babelray.tracking.sender import client

    return client(uri)


def _download(client: Any, uri: str, name: str, version: str, folder: str) -> None:
    from mlflow.artifacts import download_artifacts

    source = client.get_model_version_download_uri(name, version)
    download_artifacts(artifact_uri=source, dst_path=folder, tracking_uri=uri)
    if not (Path(folder) / "config.json").exists():
        (inner,) = Path(folder).iterdir()  # MLflow may keep the last part of the source's path
        for file in inner.iterdir():
            file.rename(Path(folder) / file.name)
        inner.rmdir()


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Say plainly that a version cannot be had."""
    from babelray.tracking.sender import reason

    try:
        yield
    except DataError:
        raise
    except Exception as error:
        status = getattr(error, "get_http_status_code", lambda: 0)()
        problem = "there is no such model, version or alias" if status in (400, 404) else reason(error)
        raise DataError(
            f"cannot fetch {path}: {problem}",
            "Check the name and MLFLOW_TRACKING_URI; the MLflow dashboard lists what is registered.",
        ) from error
