"""S3 as a filesystem of pyarrow, which Ray Train stores checkpoints with: requests are repeated as in `s3`.

pyarrow's own S3 filesystem gives up after three attempts within a second, and other retry settings are lost when it is
pickled.
"""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from babelray.storage import Location, s3
from babelray.storage.temporary import temporary_folder


def run_config_storage(location: Location) -> dict[str, Any]:
    """The arguments of Ray's `RunConfig` that make it store a run at a location."""
    if not location.is_s3:
        return {"storage_path": str(location)}
    return {"storage_path": location.uri.removeprefix("s3://"), "storage_filesystem": filesystem()}


def filesystem() -> fs.PyFileSystem:
    """The filesystem; a path in it is `bucket/key`."""
    return fs.PyFileSystem(Handler())


class Handler(fs.FileSystemHandler):  # type: ignore[misc]
    """The operations of a pyarrow filesystem. S3 has no folders: one exists as long as there is an object below it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handler)

    def __hash__(self) -> int:
        return hash(Handler)

    def get_type_name(self) -> str:
        return "babelray-s3"

    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [_info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        base = selector.base_dir.strip("/")
        sizes = s3.sizes_below(_uri(base))
        if not sizes and not selector.allow_not_found:
            raise FileNotFoundError(base)
        depth = None if selector.recursive else 1
        files = {name: size for name, size in sizes.items() if depth is None or "/" not in name}
        above = {str(folder) for name in sizes for folder in PurePosixPath(name).parents} - {"."}
        folders = sorted(name for name in above if depth is None or "/" not in name)
        return [fs.FileInfo(f"{base}/{name}", fs.FileType.Directory) for name in folders] + [
            fs.FileInfo(f"{base}/{name}", fs.FileType.File, size=size) for name, size in files.items()
        ]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Nothing to do."""

    def delete_dir(self, path: str) -> None:
        s3.delete_below(_uri(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        s3.delete_below(_uri(path))

    def delete_root_dir_contents(self) -> None:
        raise PermissionError("refusing to empty all buckets")

    def delete_file(self, path: str) -> None:
        s3.delete_below(_uri(path))

    def move(self, source: str, target: str) -> None:
        s3.copy(_uri(source), _uri(target))
        s3.delete_below(_uri(source))

    def copy_file(self, source: str, target: str) -> None:
        s3.copy(_uri(source), _uri(target))

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.PythonFile:
        if not s3.is_object(_uri(path)):
            raise FileNotFoundError(path)
        return pa.PythonFile(s3.open_file(_uri(path)), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        return pa.PythonFile(_Upload(_uri(path)), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        raise NotImplementedError("objects cannot be appended to")


class _Upload:
    """A file that is uploaded when it is closed, in parts if it is large."""

    def __init__(self, uri: str) -> None:
        self._uri, self.closed = uri, False
        self._folder = contextlib.ExitStack()
        self._path = self._folder.enter_context(temporary_folder()) / "object"
        self._file = self._path.open("wb")

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._file.close()
        with self._folder:
            s3.upload(self._path, self._uri)


def _uri(path: str) -> str:
    return f"s3://{path.strip('/')}"


def _info(path: str) -> fs.FileInfo:
    uri = _uri(path)
    if "/" in path.strip("/") and s3.is_object(uri):
        return fs.FileInfo(path, fs.FileType.File, size=s3.size(uri))
    return fs.FileInfo(path, fs.FileType.Directory if s3.exists(uri) else fs.FileType.NotFound)
