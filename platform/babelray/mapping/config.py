"""How the languages' vectors are brought into one space."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from babelray.config import Config


class AlignConfig(Config):
    """All languages are mapped to the hub."""

    method: Literal["procrustes"] = "procrustes"
    """`procrustes`: the best orthogonal mapping on the training dictionary."""
    min_pairs: int = Field(8, ge=4)
    """With fewer dictionary pairs in both vocabularies a language keeps its own space, and the run says so."""
    select: bool = True
    """Keep a language's vectors as extracted where a mapping does worse on held-back training pairs."""
