"""A backup of Ray Train's index of its checkpoints, which Ray writes in place and may leave incomplete when killed.

Ray writes the index before it deletes the checkpoints that are no longer in it, so the previous index is still valid.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from ray.train import UserCallback

from babelray.errors import BabelrayError
from babelray.storage import Location

INDEX = "checkpoint_manager_snapshot.json"
BACKUP = "checkpoint_index.json"


class CheckpointIndexBackup(UserCallback):  # type: ignore[misc]
    """A callback in Ray Train's controller: copies the index after each report."""

    def __init__(self, run: Location) -> None:
        self.run = run

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        with contextlib.suppress(BabelrayError):  # training continues without this copy
            if checkpoint is not None and _is_complete(self.run / INDEX):
                (self.run.parent / BACKUP).write_bytes((self.run / INDEX).read_bytes())


def restore_index(run: Location) -> None:
    """Before a run resumes: replace an incomplete index by its backup."""
    index, backup = run / INDEX, run.parent / BACKUP
    if _is_complete(index):  # the backup may be older, and name deleted checkpoints
        backup.write_bytes(index.read_bytes())
    elif backup.exists():
        index.write_bytes(backup.read_bytes())
    else:  # it was the first
        index.delete()


def _is_complete(index: Location) -> bool:
    try:
        return index.exists() and bool(json.loads(index.read_bytes()))
    except ValueError:
        return False
