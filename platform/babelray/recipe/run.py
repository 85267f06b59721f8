"""What every recipe has, whether it describes a run from text to report or a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import yaml
from pydantic import Field

from babelray.config import Config
from babelray.languages import Language
from babelray.tracking.description import RunDescription

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
EXPERIMENT = r"^[A-Za-z0-9][A-Za-z0-9._ -]*(/[A-Za-z0-9][A-Za-z0-9._ -]*)*$"
"""Parts with slashes between them, none of which can lead out of a folder."""


class Run(Config):
    """A run that can be named, stored and tracked."""

    kind: ClassVar[str]
    """Which stages it can have: see `Stage.recipe_kinds`."""
    name: str = Field(pattern=NAME)
    """The name of the run in the report, and of the MLflow experiment unless `experiment` says otherwise."""
    seed: int = Field(1, ge=0)
    """Same recipe, same seed, same number of workers: the same result."""
    storage: str = "runs"
    """Where artifacts go: a local folder or an s3:// URI that every node can reach."""
    experiment: str | None = Field(None, pattern=EXPERIMENT)
    """Name of the MLflow experiment; the recipe's name by default."""

    @property
    def registered_name(self) -> str | None:
        """The name under which the trained encoder is registered in MLflow; None if it is not."""
        return None

    def resolved_languages(self) -> dict[str, Language]:
        """The languages of the run by their codes; none if it has no text."""
        return {}

    def variations(self) -> Mapping[tuple[str, int], Run]:
        """The run of each variant and seed that this one compares; none if it compares nothing."""
        return {}

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)

    def description(self) -> RunDescription:
        """What the tracking server shows of the run."""
        parameters = _flatten(self.model_dump(mode="json", by_alias=True))
        return RunDescription(self.name, self.experiment or self.name, self.storage, parameters, self.to_yaml())


def _flatten(data: dict[str, Any]) -> dict[str, Any]:
    """The resolved recipe as dotted parameters.

    >>> _flatten({"pretrain": {"steps": 5, "objectives": [{"kind": "mlm", "weight": 1}]}, "hubs": ["en", "de"]})
    {'pretrain.steps': 5, 'pretrain.objectives.mlm.kind': 'mlm', 'pretrain.objectives.mlm.weight': 1, 'hubs': 'en de'}
    """
    parameters: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                walk(f"{path}.{key}" if path else key, below)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            for number, item in enumerate(value):
                walk(f"{path}.{item.get('kind', number)}", item)
        else:
            parameters[path] = " ".join(map(str, value)) if isinstance(value, list) else value

    walk("", data)
    return parameters
