"""What a run was asked to make again (`--force`): noted in the storage, so that the same command goes on after a kill.

Without the note, each try would begin anew what the one before had made, for ever on a cluster whose nodes come and go.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from babelray.errors import BabelrayError, ClusterError, StorageError
from babelray.stages.artifact import WORK, partial_of
from babelray.storage import Place

if TYPE_CHECKING:
    from babelray.stages.pipeline import Step

GOOD_FOR = 24 * 3600.0
"""Seconds after which a note counts no more: who asks for the same then means once more."""


class Redo:
    """The stages that are to be made again, and which of their steps were."""

    def __init__(self, stages: set[str], note: Place) -> None:
        self.stages, self._note = stages, note
        kept = note.read_json() if stages and note.exists() else {}
        if kept and time.time() - kept["time"] > GOOD_FOR:
            kept = {}
        self.goes_on = bool(kept)
        self._made: list[str] = kept.get("made", [])
        self._begun: str = kept.get("begun", "")

    def wants(self, step: Step) -> bool:
        """Whether a step is to be made again, and was not yet."""
        return step.stage.name in self.stages and step.fingerprint not in self._made

    def begin(self, step: Step) -> None:
        """Delete what was begun before it was asked for; what was begun since is kept, and used."""
        if not self.wants(step):
            return
        partial = partial_of(step.place)
        if self._begun != step.fingerprint:
            partial.delete()
            (partial / WORK / "forced").write_text("")
            self._begun = step.fingerprint
            self._write()
        elif not partial.exists():  # it was published in the last moment
            self.made(step)

    def made(self, step: Step) -> None:
        if self.wants(step):
            self._made.append(step.fingerprint)
            self._write()

    def forget(self) -> None:
        if self.stages:
            self._note.delete()

    def _write(self) -> None:
        self._note.write_json({"time": time.time(), "made": self._made, "begun": self._begun})


NOTHING = Redo(set(), Place(""))
"""For a run that makes what is missing."""


@contextlib.contextmanager
def redoing(stages: set[str], storage: str, key: str) -> Iterator[Redo]:
    """For the length of a run; the note outlives a kill, Ctrl-C, a lost cluster or storage, and nothing else.

    What a step had begun may be why it fails: then the next try begins anew.
    """
    redo = Redo(stages, Place.parse(storage) / ".forced" / f"{key}.json")
    try:
        yield redo
    except (StorageError, ClusterError):
        raise
    except Exception:
        with contextlib.suppress(BabelrayError):
            redo.forget()
        raise
    redo.forget()
