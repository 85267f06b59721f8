"""The folder that a stage writes: written once, complete or absent, with a manifest that traces it.

An artifact is stored at `<storage>/<stage>/<fingerprint>`. The fingerprint covers the stage's settings, the
fingerprints of the artifacts it reads, the content of the files it reads and the code that makes it, so
two recipes that agree on a stage share its artifact. Work in progress is stored beside it, under `.partial`.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from babelray.errors import ArtifactError, DataError
from babelray.storage import Location
from babelray.storage.lock import Check
from babelray.version import __version__

MANIFEST = "manifest.json"
FORMAT = 1
WORK = "work"
"""The folder of what a stage needs only to resume after an interruption."""


def fingerprint(**parts: Any) -> str:
    """Sixteen hexadecimal digits that stand for these JSON values."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Artifact:
    """A complete artifact, as read from its manifest."""

    location: Location
    manifest: dict[str, Any]

    @property
    def metrics(self) -> dict[str, Any]:
        return self.manifest["metrics"]

    @classmethod
    def load(cls, location: Location) -> Artifact | None:
        """The artifact at a location, or None if there is none; an error if it is damaged."""
        if not (location / MANIFEST).exists():
            incomplete = location.exists() and not (partial_of(location) / MANIFEST).exists()
            if incomplete and not (location / MANIFEST).exists():  # another run may have published it at this moment
                raise ArtifactError(f"{location} has no {MANIFEST}", _remedy(location))
            return None
        try:
            manifest = (location / MANIFEST).read_json()
            files = manifest["files"]
            _ = manifest["metrics"], manifest["fingerprint"], manifest["stage"]
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{location / MANIFEST} is damaged ({error})", _remedy(location)) from error
        except DataError as error:
            raise ArtifactError(f"{location / MANIFEST} is damaged", _remedy(location)) from error
        _check_files(location, files)
        return cls(location, manifest)


def _check_files(location: Location, files: Mapping[str, Mapping[str, Any]]) -> None:
    sizes = location.sizes()
    for name, entry in files.items():
        if name not in sizes:
            raise ArtifactError(f"the artifact {location} is damaged: {name} is missing", _remedy(location))
        if sizes[name] != entry["bytes"]:
            problem = f"{name} has {sizes[name]} bytes instead of {entry['bytes']}"
            raise ArtifactError(f"the artifact {location} is damaged: {problem}", _remedy(location))


def _remedy(location: Location) -> str:
    return f"Make it again: run the same command with --force {location.parent.name}"


def partial_of(location: Location) -> Location:
    """Where an artifact is built; a later run resumes from what an interrupted one wrote there."""
    return Location(f"{location.uri}.partial")


def publish(location: Location, manifest: dict[str, Any], check_lock_held: Check = lambda: None) -> Artifact:
    """Publish the partial folder without `work/` as the artifact, with its manifest, in one step."""
    check_lock_held()  # otherwise another run may be writing there
    partial = partial_of(location)
    partial.delete_unfinished()
    sizes = {n: size for n, size in partial.sizes().items() if n != MANIFEST and not _work_of(n)}
    files = {n: {"bytes": sizes[n], "digest": (partial / n).digest()} for n in sorted(sizes)}
    manifest = {"format": FORMAT, **manifest, "files": files}
    check_lock_held()
    (partial / MANIFEST).write_json(manifest)
    return _move_into_place(location, manifest, check_lock_held)


def finish(location: Location, check_lock_held: Check = lambda: None) -> Artifact | None:
    """Publish an artifact that an earlier run completed but did not publish before it was killed, if there is one."""
    partial = partial_of(location)
    if not (partial / MANIFEST).exists():
        return None
    manifest = (partial / MANIFEST).read_json()
    _check_files(partial, manifest["files"])
    check_lock_held()
    return _move_into_place(location, manifest, check_lock_held)


def _work_of(name: str) -> str:
    """The folder of work in progress that contains a file; empty if there is none.

    >>> _work_of("work/blocks/1"), _work_of("all/work/x"), _work_of("vectors/work")
    ('work', 'all/work', '')
    """
    parts = name.split("/")
    return "/".join(parts[: parts.index(WORK) + 1]) if WORK in parts[:-1] else ""


def _move_into_place(location: Location, manifest: dict[str, Any], check_lock_held: Check) -> Artifact:
    """Move the partial folder into place. After an interruption, `finish` repeats it without loss."""
    partial = partial_of(location)
    for work in {_work_of(name) for name in partial.files()} - {""}:
        (partial / work).delete()
    check_lock_held()
    if location.exists():
        (location / MANIFEST).delete()  # first: a partly deleted artifact must not count as damaged
        location.delete()
    partial.move_to(location, last=MANIFEST)
    return Artifact(location, manifest)


def provenance() -> dict[str, Any]:
    """Versions, commit and time. No path, user or host name: manifests are shared."""
    packages = ("torch", "ray", "deepspeed", "transformers")
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "babelray": __version__,
        "commit": git_commit(),
        "python": platform.python_version(),
        "packages": {name: version for name in packages if (version := _version(name))},
    }


def _version(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """The commit of the running source code, with `+` if it was changed; None for an installed package."""
    root = Path(__file__).resolve().parents[3]
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
