"""What lies in a storage: complete artifacts, and unfinished work of runs that were interrupted.

`latest` in the place of a fingerprint names the newest artifact of a stage: `runs/pretrain/latest`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from babelray.errors import ArtifactError, DataError, StorageError
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import MANIFEST, Artifact
from babelray.storage.lock import exclusive_lock

LATEST = "latest"
UNFINISHED = ".partial"
_BEGINNING = re.compile("[0-9a-f]{4,15}")
NOT_STAGES = ("sweeps", "unsent", "evaluations")
"""Folders of a storage that hold no artifacts."""


@dataclass(frozen=True)
class StoredArtifact:
    """A complete artifact as it is listed."""

    location: Location
    manifest: dict[str, Any]

    @property
    def stage(self) -> str:
        return str(self.manifest["stage"])

    @property
    def created(self) -> str:
        """The time of its publication, in ISO 8601 and UTC, so that texts compare as times do."""
        return str(self.manifest.get("created", ""))

    @property
    def bytes(self) -> int:
        return sum(entry["bytes"] for entry in self.manifest["files"].values())

    def checked(self) -> Artifact:
        """The artifact itself; an error if it is damaged."""
        artifact = Artifact.load(self.location)
        if artifact is None:
            raise ArtifactError(f"{self.location} was deleted", "Run the same command again.")
        return artifact


def stored_artifacts(storage: AnyPath, stage: str | None = None) -> list[StoredArtifact]:
    """The complete artifacts of a storage, or of one of its stages, the newest first."""
    artifacts = [
        StoredArtifact(folder, manifest)
        for folder in _artifact_folders(Location.parse(storage), stage)
        if (manifest := _manifest(folder)) is not None
    ]
    return sorted(artifacts, key=lambda artifact: (artifact.created, artifact.location), reverse=True)


def unfinished_work(storage: AnyPath) -> list[Location]:
    """The folders of work that interrupted runs would resume, and of two-file alignments that failed."""
    return [folder for folder in _artifact_folders(Location.parse(storage), None) if folder.name.endswith(UNFINISHED)]


def clean(work: Sequence[Location]) -> Iterator[tuple[Location, bool]]:
    """Delete unfinished work; for each folder, whether it was deleted: not if a run is busy there."""
    for folder in work:
        try:
            with exclusive_lock(Location(folder.uri.removesuffix(UNFINISHED))):
                folder.delete()
        except StorageError as error:
            if "another run" not in error.problem:
                raise
            yield folder, False
        else:
            yield folder, True


def find_artifact(path: AnyPath) -> Location:
    """The location of a path in which `latest`, or the beginning of a fingerprint, stands for an artifact."""
    location = Location.parse(path)
    before, separator, after = location.uri.partition(f"/{LATEST}")
    if separator and after[:1] in ("", "/") and not location.exists():
        stage = Location(before)
        artifacts = stored_artifacts(stage.parent, stage.name)
        if not artifacts:
            raise ArtifactError(f"there is no complete artifact in {stage}", "`babelray runs` lists what there is.")
        return Location(artifacts[0].location.uri + after)
    if _BEGINNING.fullmatch(location.name) and not location.is_s3 and not location.exists():
        names = [name for name in _names(location.parent) if re.fullmatch(f"{location.name}[0-9a-f]*", name)]
        if len(names) == 1:
            return location.parent / names[0]
    return location


def find_encoder(path: AnyPath) -> str:
    """The folder of an encoder, given itself or the artifact that holds it; any other name or folder unchanged."""
    text = str(path)
    if "://" in text or "/" not in text:
        return text
    location = find_artifact(text)
    if not (location / MANIFEST).exists():
        return text if location == Location.parse(text) else str(location)
    if (location / "encoder" / "config.json").exists():
        return str(location / "encoder")
    folders = sorted({name.rpartition("/")[0] for name in location.files() if name.endswith("/config.json")})
    stage = (_manifest(location) or {}).get("stage")
    holds, remedy = "no encoder", "Artifacts of the stages encoder and pretrain hold one."
    if folders:
        holds, remedy = "several", f"Name one of: {', '.join(str(location / folder) for folder in folders)}."
    raise DataError(f"{path} is an artifact of the stage {stage}, which holds {holds}", remedy)


def _artifact_folders(storage: Location, stage: str | None) -> Iterator[Location]:
    for name in [stage] if stage else _names(storage):
        if not name.startswith(".") and name not in NOT_STAGES:
            for key in _names(storage / name):
                yield storage / name / key


def _names(location: Location) -> list[str]:
    """The names directly in a folder."""
    if location.is_s3:
        return sorted({name.partition("/")[0] for name in location.files()})
    return sorted(path.name for path in location.path.iterdir()) if location.path.is_dir() else []


def _manifest(folder: Location) -> dict[str, Any] | None:
    """The manifest of a complete artifact; None if there is none that can be read."""
    if folder.name.endswith(UNFINISHED) or not (folder / MANIFEST).exists():
        return None
    try:
        manifest = (folder / MANIFEST).read_json()
        return manifest if {"stage", "fingerprint", "files"} <= {*manifest} else None
    except (DataError, TypeError):
        return None
