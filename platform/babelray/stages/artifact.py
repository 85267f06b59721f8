"""The folder that a stage leaves: written once, complete or not there, with a manifest that traces it.

An artifact lies at `<storage>/<stage>/<fingerprint>`. The fingerprint covers the stage's settings, the
fingerprints of the artifacts it reads, the content of the files it reads and the code that makes it, so
two recipes that agree on a stage share its artifact. Work in progress lies beside it, under `.partial`.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import babelray
from babelray.errors import ArtifactError, DataError
from babelray.storage import Place
from babelray.storage.lock import Check

MANIFEST = "manifest.json"
FORMAT = 1
WORK = "work"
"""The folder of what a stage needs only to go on after an interruption."""


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
            half = place.exists() and not (partial_of(place) / MANIFEST).exists()
            if half and not (place / MANIFEST).exists():  # another run may have published it at this moment
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


def publish(place: Place, manifest: dict[str, Any], still_ours: Check = lambda: None) -> Artifact:
    """Make what lies in the partial folder, but for `work/`, the artifact, with its manifest, in one step."""
    still_ours()  # else the other one's work is in there
    partial = partial_of(place)
    partial.sweep()
    sizes = {n: size for n, size in partial.sizes().items() if n != MANIFEST and not _work_of(n)}
    files = {n: {"bytes": sizes[n], "digest": (partial / n).digest()} for n in sorted(sizes)}
    manifest = {"format": FORMAT, **manifest, "files": files}
    still_ours()
    (partial / MANIFEST).write_json(manifest)
    return _published(place, manifest, still_ours)


def finish(place: Place, still_ours: Check = lambda: None) -> Artifact | None:
    """Publish what an earlier run had made but was killed before it could publish, if there is such."""
    partial = partial_of(place)
    if not (partial / MANIFEST).exists():
        return None
    manifest = (partial / MANIFEST).read_json()
    _check_files(partial, manifest["files"])
    still_ours()
    return _published(place, manifest, still_ours)


def _work_of(name: str) -> str:
    """The folder of work in progress that a file lies in; empty if it lies in none.

    >>> _work_of("work/blocks/1"), _work_of("all/work/x"), _work_of("vectors/work")
    ('work', 'all/work', '')
    """
    parts = name.split("/")
    return "/".join(parts[: parts.index(WORK) + 1]) if WORK in parts[:-1] else ""


def _published(place: Place, manifest: dict[str, Any], still_ours: Check) -> Artifact:
    """From here on nothing is lost: what is interrupted, `finish` does again."""
    partial = partial_of(place)
    for work in {_work_of(name) for name in partial.files()} - {""}:
        (partial / work).delete()
    still_ours()
    if place.exists():
        (place / MANIFEST).delete()  # first, so that what is half deleted is not taken for damaged
        place.delete()
    partial.move_to(place, last=MANIFEST)
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
