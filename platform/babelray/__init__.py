"""Babelray aligns the languages inside a multilingual encoder, and measures the result.

    import babelray as br

Names are loaded when they are first used: the import itself takes a fraction of a second, and whoever maps word vectors
needs neither Ray nor DeepSpeed, MLflow or boto3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from babelray.errors import BabelrayError
from babelray.version import __version__

if TYPE_CHECKING:
    from babelray.vectors.load import load_vectors
    from babelray.vectors.word_vectors import WordVectors

_MODULES = {
    "WordVectors": "vectors.word_vectors",
    "load_vectors": "vectors.load",
}
"""The module of each public name that is loaded when it is used."""

__all__ = ["BabelrayError", "WordVectors", "__version__", "load_vectors"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'babelray' has no attribute {name!r}")
    value = getattr(import_module(f"babelray.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
