"""Data sets on the Hugging Face hub, `hf://datasets/OWNER/NAME/path`: read only, where a hub can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from babelray.errors import StorageError

if TYPE_CHECKING:
    from huggingface_hub import HfFileSystem


def filesystem() -> HfFileSystem:
    from huggingface_hub import HfFileSystem

    return HfFileSystem()


def glob(uri: str) -> list[str]:
    with _ExplainErrors(uri):
        return sorted(f"hf://{path}" for path in filesystem().glob(uri.removeprefix("hf://")))


def open_file(uri: str) -> BinaryIO:
    with _ExplainErrors(uri):
        return filesystem().open(uri.removeprefix("hf://"), "rb")


def size(uri: str) -> int:
    with _ExplainErrors(uri):
        return int(filesystem().info(uri.removeprefix("hf://"))["size"])


def digest(uri: str) -> str:
    """The hub's own hash of the content."""
    with _ExplainErrors(uri):
        info = filesystem().info(uri.removeprefix("hf://"))
    return str(info.get("blob_id") or f"{info['size']}")


class _ExplainErrors:
    """Raises a `StorageError` if the hub cannot be reached."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, (KeyboardInterrupt, StorageError)):
            raise StorageError(
                f"cannot read {self.uri} ({type(error).__name__})",
                "Check the name and that the hub can be reached from here; otherwise give a local path or s3:// URI.",
            ) from error
