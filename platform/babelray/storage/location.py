"""A file or folder: a local path or an `s3://bucket/key` URI, with the same few operations on both.

Local writes are atomic (temporary name, then rename), as S3's are by nature. Endpoint and credentials come from the
environment, as boto3 reads them; they are never part of a location, so that they cannot reach a log or a manifest: a
URI with a user name in it is an error.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from babelray.errors import DataError, StorageError
from babelray.storage import hub, s3
from babelray.storage.temporary import temporary_folder

_UNFINISHED = re.compile(r"(^|/)\.[^/]+\.[0-9a-f]{8}$")
"""Names that `writing` gives to files until they are complete."""
STARTER = Path(__file__).resolve().parent.parent / "starter"


@dataclass(frozen=True, order=True)
class Location:
    """A file or folder, local or on S3.

    >>> location = Location.parse("s3://corpora/cc100") / "de.txt"
    >>> str(location), location.name, location.is_s3
    ('s3://corpora/cc100/de.txt', 'de.txt', True)
    """

    uri: str

    @classmethod
    def parse(cls, path: Location | str | Path) -> Location:
        """The location of a path or URI; relative paths start at the current folder, and a location stays as it is."""
        if isinstance(path, Location):
            return path
        text = str(path)
        scheme, separator, rest = text.partition("://")
        if separator and scheme == "s3":
            s3.split(text)
            return cls(text.rstrip("/"))
        if separator and scheme == "hf":
            return cls(text)
        if separator and scheme == "file":
            text = rest
        elif separator:
            raise StorageError(f"{scheme}:// is not supported", "Use a local path or an s3://bucket/key URI.")
        if text.startswith("starter:"):
            text = str(STARTER / text.removeprefix("starter:"))
        if not text:
            raise StorageError("the path is empty", "Give a local path or an s3://bucket/key URI.")
        return cls(str(Path(text).expanduser().absolute()))

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.uri.rstrip('/')}/{name}")

    @property
    def is_s3(self) -> bool:
        return self.uri.startswith("s3://")

    @property
    def is_hub(self) -> bool:
        return self.uri.startswith("hf://")

    @property
    def name(self) -> str:
        return PurePosixPath(self.uri).name

    @property
    def parent(self) -> Location:
        return Location(self.uri.rpartition("/")[0])

    @property
    def path(self) -> Path:
        """The local path; an error if this is on S3."""
        if self.is_s3:
            raise StorageError(f"{self} is not a local path", "This step needs a local folder.")
        return Path(self.uri)

    def exists(self) -> bool:
        """Whether a file or folder is here."""
        with explain_errors(self, "look at"):
            if self.is_hub:
                return bool(hub.glob(self.uri))
            return s3.exists(self.uri) if self.is_s3 else self.path.exists()

    def is_file(self) -> bool:
        with explain_errors(self, "look at"):
            return s3.is_object(self.uri) if self.is_s3 else self.path.is_file()

    def sizes(self) -> dict[str, int]:
        """All files below this folder with their sizes; names are relative to it and sorted."""
        with explain_errors(self, "list"):
            if self.is_s3:
                return s3.sizes_below(self.uri)
            files = sorted(p for p in self.path.rglob("*") if p.is_file())
            return {p.relative_to(self.path).as_posix(): p.stat().st_size for p in files}

    def files(self) -> list[str]:
        """The names of all files below this folder, relative to it, sorted."""
        return list(self.sizes())

    def glob(self) -> list[Location]:
        """The files that match this location as a pattern; an empty list if there are none.

        `*`, `?` and `[…]` are allowed in the last parts of the path; the files below the fixed start are listed.
        """
        if self.is_hub:
            return [Location(uri) for uri in hub.glob(self.uri)]
        parts = self.uri.split("/")
        first = next((i for i, part in enumerate(parts) if any(c in part for c in "*?[")), None)
        if first is None:
            return [self] if self.is_file() else []
        root = Location("/".join(parts[:first]))
        if not root.exists():
            return []
        pattern = parts[first:]
        return [
            root / name
            for name in root.files()
            if len(names := name.split("/")) == len(pattern)
            and all(fnmatch(part, part_pattern) for part, part_pattern in zip(names, pattern, strict=True))
        ]

    def size(self) -> int:
        """Bytes of this file."""
        with explain_errors(self, "look at"):
            if self.is_hub:
                return hub.size(self.uri)
            return s3.size(self.uri) if self.is_s3 else self.path.stat().st_size

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """This file as a seekable stream of bytes; only the parts that are needed are read."""
        with explain_errors(self, "read"):
            if not self.is_s3 and not self.is_hub:
                with self.path.open("rb") as file:
                    yield file
                return
            with hub.open_file(self.uri) if self.is_hub else s3.open_file(self.uri) as stream:
                yield stream

    @contextlib.contextmanager
    def writing(self) -> Iterator[Path]:
        """A local file to write; it is moved here when the block ends, or deleted if the block raises an error."""
        with explain_errors(self, "write"):
            if self.is_s3:
                with temporary_folder() as folder:
                    yield folder / self.name
                    s3.upload(folder / self.name, self.uri)
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex[:8]}")
            try:
                yield temporary
                temporary.replace(self.path)
            finally:
                temporary.unlink(missing_ok=True)

    def read_bytes(self) -> bytes:
        with explain_errors(self, "read"):
            return s3.read(self.uri) if self.is_s3 else self.path.read_bytes()

    def read_text(self) -> str:
        data = self.read_bytes()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise DataError(f"{self}, line {line}: not valid UTF-8", "Save the file as UTF-8.") from error

    def read_json(self) -> Any:
        try:
            return json.loads(self.read_text())
        except json.JSONDecodeError as error:
            raise DataError(f"{self}, line {error.lineno}: not valid JSON ({error.msg})") from error

    def write_bytes(self, data: bytes) -> None:
        """Write a file atomically: no reader ever sees an incomplete one."""
        with explain_errors(self, "write"):
            if self.is_s3:
                s3.write(self.uri, data)
                return
            with self.writing() as temporary:
                temporary.write_bytes(data)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode("utf-8"))

    def write_json(self, value: Any) -> None:
        self.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def digest(self) -> str:
        """A digest of this file's content: SHA-256 locally, the entity tag and size on S3."""
        with explain_errors(self, "read"):
            if self.is_hub:
                return hub.digest(self.uri)
            if self.is_s3:
                return s3.entity_tag(self.uri)
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()

    def copy_to(self, target: Location) -> None:
        """Copy this file; both are local, or both on S3. A local file that is never changed becomes a second link."""
        with explain_errors(target, "write"):
            if self.is_s3:
                s3.copy(self.uri, target.uri)
                return
            target.path.parent.mkdir(parents=True, exist_ok=True)
            target.path.unlink(missing_ok=True)
            try:
                target.path.hardlink_to(self.path)
            except OSError:  # another file system, or one without links
                with target.writing() as temporary:
                    shutil.copyfile(self.path, temporary)

    def delete(self) -> None:
        """Delete this file or folder, if it exists."""
        with explain_errors(self, "delete"):
            if self.is_s3:
                s3.delete_below(self.uri)
            elif self.path.is_dir():
                shutil.rmtree(self.path)
            else:
                self.path.unlink(missing_ok=True)

    def delete_unfinished(self) -> None:
        """Delete the temporary files of killed writers below this folder; no process may be writing here."""
        for name in self.files():
            if _UNFINISHED.search(name):
                (self / name).delete()

    def move_to(self, target: Location, last: str) -> None:
        """Rename this folder; `last`, the file that marks it complete, appears after all others.

        Locally that is one rename. On S3 the objects are copied on the server, `last` at the end.
        """
        with explain_errors(target, "write"):
            if self.is_s3:
                s3.move(self.uri, target.uri, self.files(), last)
                return
            target.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.rename(target.path)

    @contextlib.contextmanager
    def local_output(self) -> Iterator[Path]:
        """A local folder to fill; its content is moved here at the end of the block."""
        with explain_errors(self, "write"):
            if not self.is_s3:
                self.path.mkdir(parents=True, exist_ok=True)
                yield self.path
                return
            with temporary_folder() as folder:
                yield folder
                for file in sorted(p for p in folder.rglob("*") if p.is_file()):
                    s3.upload(file, (self / file.relative_to(folder).as_posix()).uri)

    @contextlib.contextmanager
    def local_input(self) -> Iterator[Path]:
        """This file or folder as a local path; if it is on S3, a copy that is deleted after the block."""
        with explain_errors(self, "read"):
            if not self.is_s3:
                yield self.path
                return
            with temporary_folder() as folder:
                root = folder / self.name
                if self.is_file():
                    s3.download(self.uri, root)
                else:
                    for name in self.files():
                        s3.download((self / name).uri, root / name)
                yield root


AnyPath = Location | str | Path
"""What a public function accepts as a file or folder."""

_REASONS = {
    errno.ENOENT: ("it does not exist", "Check the path."),
    errno.EACCES: ("permission denied", "Check who owns it and its permissions."),
    errno.EPERM: ("permission denied", "Check who owns it and its permissions."),
    errno.EROFS: ("the file system is read-only", "Choose another location with `storage=…`."),
    errno.ENOSPC: ("no space left on the device", "Free some space or choose another location with `storage=…`."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space or choose another location with `storage=…`."),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Check the path."),
    errno.EISDIR: ("it is a folder, not a file", "Name the file."),
}
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
"""How libraries in Rust, such as safetensors, report errors of the operating system."""


@contextlib.contextmanager
def explain_errors(location: Location | str, verb: str) -> Iterator[None]:
    """Turn an error of the operating system or of S3 into a `StorageError` with a remedy."""
    try:
        yield
    except OSError as error:
        reason, remedy = _REASONS.get(error.errno or 0, (error.strerror or str(error) or type(error).__name__, ""))
        where = error.filename if isinstance(error.filename, str) else location
        raise StorageError(f"cannot {verb} {where}: {reason}", remedy) from error
    except s3.errors() as error:
        reason, remedy = s3.explain(error)
        raise StorageError(f"cannot {verb} {location}: {reason}", remedy) from error
    except Exception as error:
        match = _OS_ERROR.search(str(error))
        if match is None or int(match[1]) not in _REASONS:
            raise
        reason, remedy = _REASONS[int(match[1])]
        raise StorageError(f"cannot {verb} {location}: {reason}", remedy) from error
