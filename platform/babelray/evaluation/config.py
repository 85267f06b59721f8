"""What is measured, and how."""

from __future__ import annotations

from pydantic import Field

from babelray.config import Config


class EvaluateConfig(Config):
    """The encoder before and after, on held-out parallel sentences; the vectors before and after, on held-out words."""

    layer: int = 7
    """Layer whose mean-pooled vectors stand for a sentence; 0 is the embedding layer, negative numbers count from
    the last."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included."""
