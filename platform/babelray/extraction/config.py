"""How static vectors are taken from the encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from babelray.config import Config


class ExtractConfig(Config):
    """Static vectors of every language's vocabulary, from one layer of the encoder."""

    method: Literal["aggregate"] = "aggregate"
    """`aggregate`: the mean over a word's occurrences of its mean-pooled subwords (Bommasani et al., 2020)."""
    layer: int = 6
    """Layer whose vectors are used; 0 is the embedding layer, negative numbers count from the last."""
    batch_tokens: int = Field(8192, ge=64)
    """Subwords in a batch, padding included."""
    workers: int = Field(2, ge=1)
    """Worker processes; each takes whole languages."""
