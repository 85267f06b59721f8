"""One writer at a time per location, and a lock that ends with its owner, even if the owner is killed.

Locally it is a file lock, which the operating system releases when the process ends. On S3 it is an object that its
owner rewrites every few seconds: another process takes over an object that no longer changes. Only the monotonic clock
of one process is read, so that the clocks of machines may differ.
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
from babelray.storage import Location, s3
from babelray.storage.location import explain_errors

RENEWAL_SECONDS = 3.0
"""Seconds between two renewals of a lock on S3."""
STALE_SECONDS = 12.0
"""Seconds without a renewal after which a lock counts as abandoned."""

Check = Callable[[], None]
"""Raises an error if the lock was lost: its owner was suspended or disconnected, and another run has taken over."""


@contextlib.contextmanager
def exclusive_lock(location: Location) -> Iterator[Check]:
    """Keep two runs from building the same thing at the same time."""
    lock = location.parent.parent / ".locks" / f"{location.parent.name}-{location.name}"
    with _s3_lock(lock, location) if location.is_s3 else _file_lock(lock, location) as check:
        yield check


def _locked_error(location: Location) -> StorageError:
    return StorageError(
        f"another run is making {location}", "Wait for it to end, or stop it; this run then resumes its work."
    )


@contextlib.contextmanager
def _file_lock(lock: Location, location: Location) -> Iterator[Check]:
    if sys.platform == "win32":
        yield lambda: None
        return
    import fcntl

    with explain_errors(location, "write"):
        lock.path.parent.mkdir(parents=True, exist_ok=True)
        file = lock.path.open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked_error(location) from None
        yield lambda: None


@contextlib.contextmanager
def _s3_lock(lock: Location, location: Location) -> Iterator[Check]:
    held = _S3Lock(lock.uri, location)
    with explain_errors(location, "write"):
        held.take()
    released = threading.Event()

    def renew() -> None:
        while not released.wait(RENEWAL_SECONDS) and not held.lost:
            with contextlib.suppress(*s3.errors()):  # the server is unavailable: try again at the next renewal
                held.renew()

    thread = threading.Thread(target=renew, name="babelray-lock", daemon=True)
    thread.start()
    try:
        yield held.check
    finally:
        released.set()
        thread.join(timeout=60)
        with contextlib.suppress(*s3.errors()):
            held.release()


class _S3Lock:
    """A lock on S3 that this process waits for or holds."""

    def __init__(self, uri: str, location: Location) -> None:
        self.uri, self.location = uri, location
        self.lost = False
        self._owner, self._count = uuid.uuid4().hex, 0
        self._tag: str | None = None
        self._request_lock = threading.Lock()

    def take(self) -> None:
        """Take the lock if it is free or stale; warn if the server does not support conditional writes."""
        self._wait_and_take()
        if self._overwrites_despite_condition():
            logging.getLogger("babelray").warning(
                "this S3 server does not support conditional writes: make sure that no two runs make %s at once",
                self.location,
            )

    def _wait_and_take(self) -> None:
        last_tag, since, asked = "", 0.0, time.monotonic()
        while not s3.with_retries(self._write)(None):
            current = s3.with_retries(s3.read_tagged)(self.uri)
            if current is None:
                continue  # it has just been released
            now = time.monotonic()
            if now > asked + RENEWAL_SECONDS:  # the server was unavailable: the owner could not renew it either
                since = now
            if current[1] != last_tag:
                if last_tag:
                    raise _locked_error(self.location)
                logging.getLogger("babelray").warning(
                    "another run may be making %s; waiting %.0f s for a sign of it",
                    self.location,
                    STALE_SECONDS,
                )
                last_tag, since = current[1], now
            elif now > since + STALE_SECONDS:
                if s3.with_retries(self._write)(last_tag):
                    return
                raise _locked_error(self.location)
            time.sleep(0.5)
            asked = time.monotonic()

    def renew(self) -> None:
        with self._request_lock:
            self.lost = self.lost or not self._write(self._tag)

    def check(self) -> None:
        with explain_errors(self.location, "write"):
            s3.with_retries(self.renew)()
        if self.lost:
            raise StorageError(
                f"another run has taken over {self.location}, since this one did not renew its lock",
                "Run the same command again when the other has ended.",
            )

    def release(self) -> None:
        self.renew()
        if not self.lost:
            s3.delete_object(self.uri)

    def _overwrites_despite_condition(self) -> bool:
        """Whether the server overwrites an object although the request forbids it."""
        with self._request_lock:
            tag = s3.with_retries(s3.write_if)(self.uri, f"{self._owner} {self._count}".encode(), None)
            self._tag = tag or self._tag
        return tag is not None

    def _write(self, expected: str | None) -> bool:
        """Renew the lock if it has the expected tag, or take it if there is none; False if another process holds it."""
        self._count += 1
        content = f"{self._owner} {self._count}".encode()
        tag = s3.write_if(self.uri, content, expected)
        if tag is None and (current := s3.read_tagged(self.uri)) and current[0].startswith(self._owner.encode()):
            tag = s3.write_if(self.uri, content, current[1])  # the answer to an earlier request was lost
        self._tag = tag
        return tag is not None
