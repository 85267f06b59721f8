"""One way to name a place: a local path, an `s3://bucket/key` URI, or `starter:` for the data shipped with Babelray."""

from babelray.storage.place import Place

__all__ = ["Place"]
