"""One writer at a time for a place, and a lock that ends with its owner, however that ends.

Locally it is the operating system's, which goes with the process. On S3 it is an object that its owner writes anew
every few seconds: who finds one that does not change takes it over. No clock is read but the one that only runs.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator

from babelray.errors import StorageError
from babelray.storage import Place, s3
from babelray.storage.place import explained

RENEWED = 3.0
"""Seconds between two signs of life of a lock on S3."""
STALE = 12.0
"""Seconds without one after which it counts as left behind."""

Check = Callable[[], None]
"""An error if the lock was lost: its owner was stopped for long, or cut off, and another one has taken over."""


@contextlib.contextmanager
def only_one(place: Place) -> Iterator[Check]:
    """Keep two runs from building the same thing at the same time."""
    lock = place.parent.parent / ".locks" / f"{place.parent.name}-{place.name}"
    with _object(lock, place) if place.is_s3 else _file(lock, place) as check:
        yield check


def _taken(place: Place) -> StorageError:
    return StorageError(
        f"another run is making {place}", "Wait for it to end, or stop it; this run then goes on from there."
    )


@contextlib.contextmanager
def _file(lock: Place, place: Place) -> Iterator[Check]:
    if sys.platform == "win32":
        yield lambda: None
        return
    import fcntl

    with explained(place, "write"):
        lock.path.parent.mkdir(parents=True, exist_ok=True)
        file = lock.path.open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(place) from None
        yield lambda: None


@contextlib.contextmanager
def _object(lock: Place, place: Place) -> Iterator[Check]:
    held = _Held(lock.uri, place)
    with explained(place, "write"):
        held.take()
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED) and not held.lost:
            with contextlib.suppress(*s3.errors()):  # the server is away; the next time, then
                held.renew()

    thread = threading.Thread(target=renew, name="babelray-lock", daemon=True)
    thread.start()
    try:
        yield held.check
    finally:
        ended.set()
        thread.join(timeout=60)
        with contextlib.suppress(*s3.errors()):
            held.release()


class _Held:
    """A lock on S3, from the view of one who wants it or has it."""

    def __init__(self, uri: str, place: Place) -> None:
        self.uri, self.place = uri, place
        self.lost = False
        self._owner, self._count = uuid.uuid4().hex, 0
        self._tag: str | None = None
        self._one_at_a_time = threading.Lock()

    def take(self) -> None:
        """Take it when it is free, or has not been renewed for long; say if this server cannot keep two apart."""
        self._take()
        if self._write_unless_there():
            logging.getLogger("babelray").warning(
                "this S3 server knows no conditional writes: see to it yourself that no two runs make %s", self.place
            )

    def _take(self) -> None:
        seen, since, asked = "", 0.0, time.monotonic()
        while not s3.patient(self._write)(None):
            there = s3.patient(s3.read_tagged)(self.uri)
            if there is None:
                continue  # it has just been given back
            now = time.monotonic()
            if now > asked + RENEWED:  # the server was away: nobody could give a sign of life
                since = now
            if there[1] != seen:
                if seen:
                    raise _taken(self.place)
                logging.getLogger("babelray").warning(
                    "%s may be in the making by another run; looking for %.0f s whether that lives", self.place, STALE
                )
                seen, since = there[1], now
            elif now > since + STALE:
                if s3.patient(self._write)(seen):
                    return
                raise _taken(self.place)
            time.sleep(0.5)
            asked = time.monotonic()

    def renew(self) -> None:
        with self._one_at_a_time:
            self.lost = self.lost or not self._write(self._tag)

    def check(self) -> None:
        with explained(self.place, "write"):
            s3.patient(self.renew)()
        if self.lost:
            raise StorageError(
                f"another run has taken over {self.place}, since this one gave no sign of life",
                "Give the same command again when the other has ended.",
            )

    def release(self) -> None:
        self.renew()
        if not self.lost:
            s3.delete_object(self.uri)

    def _write_unless_there(self) -> bool:
        """Whether the server overwrites what it was told not to."""
        with self._one_at_a_time:
            tag = s3.patient(s3.write_if)(self.uri, f"{self._owner} {self._count}".encode(), None)
            self._tag = tag or self._tag
        return tag is not None

    def _write(self, expected: str | None) -> bool:
        """Write a new sign of life over the one that is expected, or where nothing is; False if it is another's."""
        self._count += 1
        sign = f"{self._owner} {self._count}".encode()
        tag = s3.write_if(self.uri, sign, expected)
        if tag is None and (there := s3.read_tagged(self.uri)) and there[0].startswith(self._owner.encode()):
            tag = s3.write_if(self.uri, sign, there[1])  # an answer had got lost
        self._tag = tag
        return tag is not None
