"""The version of Babelray."""

__version__ = "0.1.0"
