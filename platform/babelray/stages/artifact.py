"""The folder that a stage leaves: written once, complete or not there, with a manifest that traces it.

An artifact lies at `<storage>/<stage>/<fingerprint>`. The fingerprint covers the stage's settings, the
fingerprints of the artifacts it reads, the content of the files it reads and the code that makes it, so
two recipes that agree on a stage share its artifact. Work in progress lies beside it, under `.partial`.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import platform
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import babelray
from babelray.errors import ArtifactError, DataError, StorageError
from babelray.storage import Place

MANIFEST = "manifest.json"
FORMAT = 1


def fingerprint(**parts: Any) -> str:
    """Sixteen hexadecimal digits that stand for these JSON values."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Artifact:
    """A complete artifact, as read from its manifest."""

    place: Place
    manifest: dict[str, Any]

    @property
    def metrics(self) -> dict[str, Any]:
        return self.manifest["metrics"]

    @classmethod
    def load(cls, place: Place) -> Artifact | None:
        """The artifact at a place, or None if there is none; an error if it is damaged."""
        if not (place / MANIFEST).exists():
            if place.exists():
                raise ArtifactError(f"{place} has no {MANIFEST}", _redo(place))
            return None
        try:
            manifest = (place / MANIFEST).read_json()
            files = manifest["files"]
            _ = manifest["metrics"], manifest["fingerprint"], manifest["stage"]
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{place / MANIFEST} is damaged ({error})", _redo(place)) from error
        except DataError as error:
            raise ArtifactError(f"{place / MANIFEST} is damaged", _redo(place)) from error
        _check_files(place, files)
        return cls(place, manifest)


def _check_files(place: Place, files: Mapping[str, Mapping[str, Any]]) -> None:
    there = place.sizes()
    for name, entry in files.items():
        if name not in there:
            raise ArtifactError(f"the artifact {place} is damaged: {name} is missing", _redo(place))
        if there[name] != entry["bytes"]:
            problem = f"{name} has {there[name]} bytes instead of {entry['bytes']}"
            raise ArtifactError(f"the artifact {place} is damaged: {problem}", _redo(place))


def _redo(place: Place) -> str:
    return f"Make it again: run the same command with --force {place.parent.name}"


def partial_of(place: Place) -> Place:
    """Where an artifact is built; what an interrupted run left there is used again."""
    return Place(f"{place.uri}.partial")


def publish(place: Place, manifest: dict[str, Any]) -> Artifact:
    """Make what lies in the partial folder the artifact, with its manifest, in one step."""
    partial = partial_of(place)
    partial.sweep()
    sizes = partial.sizes()
    files = {n: {"bytes": sizes[n], "digest": (partial / n).digest()} for n in sorted(sizes) if n != MANIFEST}
    manifest = {"format": FORMAT, **manifest, "files": files}
    (partial / MANIFEST).write_json(manifest)
    old = Place(f"{place.uri}.old-{uuid.uuid4().hex[:8]}")
    if place.exists():
        place.move_to(old, last=MANIFEST)
    partial.move_to(place, last=MANIFEST)
    old.delete()
    return Artifact(place, manifest)


def provenance() -> dict[str, Any]:
    """Who made it: versions, commit, time. No path, user or host name: manifests are shared."""
    packages = ("torch", "ray", "deepspeed", "transformers")
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "babelray": babelray.__version__,
        "commit": git_commit(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in packages},
    }


def git_commit() -> str | None:
    """The commit of the source this runs from, with `+` if it was changed; None for an installed package."""
    import subprocess
    from pathlib import Path

    root = Path(babelray.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        result = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None


@contextlib.contextmanager
def only_one(place: Place) -> Iterator[None]:
    """Keep two runs on one machine from building the same artifact at the same time."""
    if place.is_s3 or sys.platform == "win32":
        yield
        return
    import fcntl

    from babelray.storage.place import explained

    locks = place.path.parent.parent / ".locks"
    with explained(place, "write"):
        locks.mkdir(parents=True, exist_ok=True)
        lock = (locks / f"{place.parent.name}-{place.name}").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                f"another run is making {place}", "Wait for it to end, or stop it; this run then goes on from there."
            ) from None
        yield
