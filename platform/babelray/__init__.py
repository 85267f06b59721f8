"""Babelray aligns the languages inside a multilingual encoder, and measures the result."""

from babelray.version import __version__

__all__ = ["__version__"]
