"""Where data lies: a local path, an `s3://bucket/key` URI, or `starter:` for the data shipped with Babelray."""

from babelray.storage.location import AnyPath, Location

__all__ = ["AnyPath", "Location"]
