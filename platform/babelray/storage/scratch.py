"""Temporary folders that go even if their owner is killed: whoever makes the next one removes what is left.

The owner holds a lock of the operating system's, which goes with it; so one is told from another in any container.
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
YOUNG = 60.0
"""Seconds that a folder is left alone: its owner may not have locked it yet."""


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder for the length of the block."""
    import fcntl

    remove_left()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, (Path(folder) / OWNER).open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        files = Path(folder) / "files"
        files.mkdir()
        yield files


def remove_left() -> None:
    """Remove the folders of owners that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it goes at this moment, or is another user's
            if time.time() - folder.stat().st_mtime > YOUNG and not _is_owned(folder):
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
