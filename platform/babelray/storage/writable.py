"""Whether a result can be written, asked before it is computed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from babelray.errors import DataError, StorageError
from babelray.storage.location import AnyPath, Location

CHOOSE_STORAGE = "Choose another location with `storage=…`."


def check_writable(folder: AnyPath, remedy: str = CHOOSE_STORAGE) -> None:
    """Raise an error if nothing can be written to a folder. Locally the folder itself is not made."""
    location = Location.parse(folder)
    if location.is_s3:
        probe = location / ".probe"
        probe.write_bytes(b"")
        probe.delete()
        return
    try:
        tempfile.TemporaryFile(dir=nearest_folder(location)).close()
    except OSError as error:
        raise StorageError(f"cannot write {location}: {(error.strerror or str(error)).lower()}", remedy) from None


def check_new_file(file: AnyPath) -> None:
    """Raise an error if a file exists already or cannot be written."""
    location = Location.parse(file)
    if location.exists():
        raise DataError(f"{file} exists already", "Name another file, or delete it.")
    check_writable(location.parent, "Name another file.")


def nearest_folder(location: Location) -> Path:
    """The folder, or the nearest one above it that exists."""
    folder = location.path
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise StorageError(f"cannot write {location}: a part of the path is a file, not a folder", "Check the path.")
    return folder
