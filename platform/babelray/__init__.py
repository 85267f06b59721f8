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
    from babelray import losses
    from babelray.api.alignment import Alignment, BliScores, WordMapping, align, bli, load_mapping
    from babelray.api.encoders import Encoder, load_encoder
    from babelray.api.evaluation import Comparison, Evaluation, compare, evaluate
    from babelray.api.extraction import extract
    from babelray.api.recipes import CompletedRun, run
    from babelray.api.word_links import SoftLinks, WordLinks, soft_align, word_align
    from babelray.vectors.load import load_vectors
    from babelray.vectors.word_vectors import WordVectors

_MODULES = {
    "Alignment": "api.alignment",
    "BliScores": "api.alignment",
    "Comparison": "api.evaluation",
    "CompletedRun": "api.recipes",
    "Encoder": "api.encoders",
    "Evaluation": "api.evaluation",
    "SoftLinks": "api.word_links",
    "WordLinks": "api.word_links",
    "WordMapping": "api.alignment",
    "WordVectors": "vectors.word_vectors",
    "align": "api.alignment",
    "bli": "api.alignment",
    "compare": "api.evaluation",
    "evaluate": "api.evaluation",
    "extract": "api.extraction",
    "load_encoder": "api.encoders",
    "load_mapping": "api.alignment",
    "load_vectors": "vectors.load",
    "losses": "losses",
    "run": "api.recipes",
    "soft_align": "api.word_links",
    "word_align": "api.word_links",
}
"""The module of each public name that is loaded when it is used."""

__all__ = [
    "Alignment",
    "BabelrayError",
    "BliScores",
    "Comparison",
    "CompletedRun",
    "Encoder",
    "Evaluation",
    "SoftLinks",
    "WordLinks",
    "WordMapping",
    "WordVectors",
    "__version__",
    "align",
    "bli",
    "compare",
    "evaluate",
    "extract",
    "load_encoder",
    "load_mapping",
    "load_vectors",
    "losses",
    "run",
    "soft_align",
    "word_align",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'babelray' has no attribute {name!r}")
    module = import_module(f"babelray.{_MODULES[name]}")
    value = module if _MODULES[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
