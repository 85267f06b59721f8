"""Ray Train's record of its checkpoints, kept a second time: Ray writes it in place, and may be killed in the middle.

Ray writes the record before it deletes what the record no longer names, so that the one before is still true.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from ray.train import UserCallback

from babelray.errors import BabelrayError
from babelray.storage import Place

RECORD = "checkpoint_manager_snapshot.json"
COPY = "record.json"


class KeepRecord(UserCallback):  # type: ignore[misc]
    """In Ray Train's controller: copies the record, as it is after a report, to a place of its own."""

    def __init__(self, run: Place) -> None:
        self.run = run

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        with contextlib.suppress(BabelrayError):  # a copy less; the training goes on
            if checkpoint is not None and _is_whole(self.run / RECORD):
                (self.run.parent / COPY).write_bytes((self.run / RECORD).read_bytes())


def mend(run: Place) -> None:
    """Before a run goes on: put the copy in the place of a record that is not whole."""
    record, copy = run / RECORD, run.parent / COPY
    if _is_whole(record):  # the copy may be older, and name what is deleted
        copy.write_bytes(record.read_bytes())
    elif copy.exists():
        record.write_bytes(copy.read_bytes())
    else:  # it was the first
        record.delete()


def _is_whole(record: Place) -> bool:
    try:
        return record.exists() and bool(json.loads(record.read_bytes()))
    except ValueError:
        return False
