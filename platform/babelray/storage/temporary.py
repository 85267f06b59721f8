"""Temporary folders that are deleted even if their owner is killed: by the next process that makes one.

The owner holds a file lock, which the operating system releases when the process ends. Unlike a process number, that
works across containers.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "babelray-scratch-"
OWNER = ".owner"
GRACE_SECONDS = 60.0
"""Age in seconds below which a folder is not deleted: its owner may not have locked it yet."""


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """An empty folder that is deleted after the block."""
    import fcntl

    remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, (Path(folder) / OWNER).open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        files = Path(folder) / "files"
        files.mkdir()
        yield files


def remove_abandoned() -> None:
    """Remove the folders of owners that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it is being deleted, or belongs to another user
            if time.time() - folder.stat().st_mtime > GRACE_SECONDS and not _is_owned(folder):
                shutil.rmtree(folder)


def _is_owned(folder: Path) -> bool:
    import fcntl

    if not (folder / OWNER).exists():
        return False
    with (folder / OWNER).open("r+") as owner:
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
