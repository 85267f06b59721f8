"""What a stage is: settings from the recipe, inputs, and a function that fills a folder.

A stage sees its `Settings` and its inputs, never the recipe, so that what its fingerprint covers and what
it can use are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from babelray.config import Config

if TYPE_CHECKING:
    from babelray.progress import Progress
    from babelray.recipe import Recipe
    from babelray.stages.artifact import Artifact
    from babelray.storage import Place

S = TypeVar("S", bound=Config)
Metrics = dict[str, float]


@dataclass(frozen=True)
class Job(Generic[S]):
    """One execution of a stage."""

    settings: S
    inputs: Mapping[str, Artifact]
    out: Place
    """The folder to fill. What an interrupted run left is still there."""
    progress: Progress
    track: Callable[[Mapping[str, float], int], None]
    """Sends metrics of a step to the tracking server."""
    say: Callable[[str], None]
    """Tells the user something worth knowing."""

    def source(self, stage: str) -> Place:
        """Where the artifact of an earlier stage lies."""
        return self.inputs[stage].place


class Stage(ABC, Generic[S]):
    """One step of a run. Subclasses live one a file and read from top to bottom."""

    name: ClassVar[str]
    needs: tuple[str, ...] = ()

    @abstractmethod
    def settings(self, recipe: Recipe) -> S:
        """The part of the recipe that this stage depends on."""

    def sources(self, settings: S) -> list[Place]:
        """The files that it reads from outside the artifacts; their content is part of the fingerprint."""
        return []

    @abstractmethod
    def run(self, job: Job[S]) -> dict[str, Any]:
        """Fill `job.out`; return the figures worth keeping in the manifest."""
