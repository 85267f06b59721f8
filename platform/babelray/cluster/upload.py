"""The files of a folder that Ray sends to the cluster with a job, and a limit on their size."""

from __future__ import annotations

import logging
import os
from fnmatch import fnmatch
from pathlib import Path

from babelray.errors import ClusterError

Files = dict[str, int]
"""Bytes of each file, by its path in the folder."""
NEVER_SENT = ".git,.venv,venv,__pycache__"
"""Ray's default of the names that are excluded wherever they are."""


def files_to_send(folder: Path) -> Files:
    """The files that Ray itself would send: all except those that a `.rayignore` or `.gitignore`, here or below, names.

    `.git`, `.venv`, `venv` and `__pycache__` are never sent.
    """
    from ray._private.runtime_env.packaging import _dir_travel

    folder = folder.absolute()
    files: Files = {}

    def take(path: Path) -> None:
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = path.stat().st_size

    gitignore = os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0") != "1"
    never = os.environ.get("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", NEVER_SENT).split(",")

    def is_never_sent(path: Path) -> bool:
        return any(fnmatch(path.name, name.strip()) for name in never)

    _dir_travel(folder, [is_never_sent], take, include_gitignore=gitignore, logger=logging.getLogger(__name__))
    return files


def largest(files: Files, count: int = 5) -> list[str]:
    """The largest files, each with its size."""
    order = sorted(files, key=lambda name: (-files[name], name))
    return [f"{megabytes(files[name]):>9}  {name}" for name in order[:count]]


def check_size(files: Files, folder: Path, limit: float) -> None:
    """Raise an error above `limit` megabytes: data belong in the storage, not in the upload of every job."""
    total = sum(files.values())
    if total > limit * 1e6:
        raise ClusterError(
            f"{folder} has {megabytes(total)} to upload, more than {limit:g} MB. The largest files:\n"
            + "\n".join(largest(files)),
            "List files that the job does not need in .rayignore (as in .gitignore), or allow more with --max-upload.",
        )


def megabytes(size: float) -> str:
    """The size in megabytes.

    >>> megabytes(19_840_000), megabytes(2_000)
    ('19.8 MB', '0.0 MB')
    """
    return f"{size / 1e6:,.1f} MB"
