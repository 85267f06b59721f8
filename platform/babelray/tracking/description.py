"""The description of a run on the tracking server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RunDescription:
    """The name of a run, where it is stored, and the resolved recipe as parameters and as YAML."""

    name: str
    experiment: str
    storage: str
    parameters: Mapping[str, Any]
    recipe: str
