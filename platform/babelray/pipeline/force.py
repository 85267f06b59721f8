"""`--force`: the stages that a run was asked to make again, recorded in the storage, so that a killed run can resume.

Without the record every attempt would make again what the one before had finished; on a cluster whose nodes come and go
it might never end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from babelray.errors import BabelrayError, ClusterError, RecipeError, StorageError
from babelray.pipeline.plan import check_stage_name
from babelray.storage import Location
from babelray.storage.artifact import WORK, fingerprint, partial_of

if TYPE_CHECKING:
    from babelray.pipeline.plan import Step

VALID_SECONDS = 24 * 3600.0
"""Age at which a record expires: the same command then means to make the stages again once more."""


class ForcedStages:
    """The steps that are to be made again, and which of them are done."""

    def __init__(self, steps: set[str], record: Location) -> None:
        """`steps`: their fingerprints."""
        self._steps, self._record = steps, record
        earlier = record.read_json() if steps and record.exists() else {}
        if earlier and time.time() - earlier["time"] > VALID_SECONDS:
            earlier = {}
        self.resumes = bool(earlier)
        self._done: list[str] = earlier.get("done", [])
        self._begun: str = earlier.get("begun", "")

    def includes(self, step: Step) -> bool:
        """Whether a step is to be made again and has not been yet."""
        return step.fingerprint in self._steps and step.fingerprint not in self._done

    def begin(self, step: Step) -> None:
        """Delete work from before the request; work since then is resumed."""
        if not self.includes(step):
            return
        partial = partial_of(step.location)
        if self._begun != step.fingerprint:
            partial.delete()
            (partial / WORK / "forced").write_text("")
            self._begun = step.fingerprint
            self._write()
        elif not partial.exists():  # it was published just before the run was killed
            self.mark_done(step)

    def mark_done(self, step: Step) -> None:
        if self.includes(step):
            self._done.append(step.fingerprint)
            self._write()

    def clear(self) -> None:
        if self._steps:
            self._record.delete()

    def _write(self) -> None:
        self._record.write_json({"time": time.time(), "done": self._done, "begun": self._begun})


NO_FORCE = ForcedStages(set(), Location(""))
"""For a run that makes only missing artifacts."""


@contextlib.contextmanager
def forced_stages(steps: Sequence[Step], force: str | None, storage: str) -> Iterator[ForcedStages]:
    """For the length of a run; the record survives a kill, Ctrl-C, a lost cluster or storage, and nothing else.

    An error of a stage may come from its unfinished work: the next attempt then starts over.
    """
    key = fingerprint(force=force, steps=[step.fingerprint for step in steps])
    forced = ForcedStages(steps_to_force(steps, force), Location.parse(storage) / ".forced" / f"{key}.json")
    try:
        yield forced
    except (StorageError, ClusterError):
        raise
    except Exception:
        with contextlib.suppress(BabelrayError):
            forced.clear()
        raise
    forced.clear()


def steps_to_force(steps: Sequence[Step], force: str | None) -> set[str]:
    """The fingerprints of a stage's steps and of all that follow from them."""
    if force is None:
        return set()
    names = list(dict.fromkeys(step.name for step in steps))
    if force not in names:
        check_stage_name(force)
        raise RecipeError(f"--force {force}: this command does not reach that stage", f"It runs {', '.join(names)}.")
    forced: set[str] = set()
    for step in steps:
        if step.name == force or forced & {*step.inputs.values()}:
            forced.add(step.fingerprint)
    return forced
