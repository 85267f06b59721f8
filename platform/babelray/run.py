"""What every recipe has, whether it describes a whole run from text to report or a simulation."""

from __future__ import annotations

import yaml
from pydantic import Field

from babelray.config import Config

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
EXPERIMENT = r"^[A-Za-z0-9][A-Za-z0-9._ -]*(/[A-Za-z0-9][A-Za-z0-9._ -]*)*$"
"""Parts with slashes between them, none of which can lead out of a folder."""


class Run(Config):
    """A run that can be named, stored and tracked."""

    name: str = Field(pattern=NAME)
    """What the run is called: in the report, and as the MLflow experiment unless `experiment` says otherwise."""
    seed: int = Field(1, ge=0)
    """Same recipe, same seed, same number of workers: the same result."""
    storage: str = "runs"
    """Where artifacts go: a local folder or an s3:// URI that every node can reach."""
    experiment: str | None = Field(None, pattern=EXPERIMENT)
    """Name of the MLflow experiment; the recipe's name by default."""

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
