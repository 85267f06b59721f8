"""What a stage is: settings from the recipe, inputs, and a function that fills a folder.

A stage sees its settings and its inputs, never the recipe, so that its fingerprint covers everything that it can use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from babelray.config import Config
from babelray.pipeline.prospects import Demand
from babelray.pipeline.summary import Summary
from babelray.registry import Registry

if TYPE_CHECKING:
    from babelray.cluster.progress import Progress
    from babelray.encoder.shape import EncoderShape
    from babelray.errors import CollectedErrors
    from babelray.pipeline.prospects import Prospects
    from babelray.storage import Location
    from babelray.storage.artifact import Artifact

S = TypeVar("S", bound=Config)


class LanguageSettings(Config):
    """Settings of a stage that works on several languages and a hub."""

    languages: list[str]
    hub: str
    seed: int

    @property
    def others(self) -> list[str]:
        """The languages without the hub."""
        return [code for code in self.languages if code != self.hub]


@dataclass(frozen=True)
class Part:
    """A part of an artifact that other stages can read by itself, and all that decides its content."""

    identity: Mapping[str, Any]
    """Settings, as JSON values."""
    sources: Sequence[Location]
    needs: tuple[str, ...] = ()
    """Other parts of the same artifact that it depends on."""


@dataclass(frozen=True)
class Job(Generic[S]):
    """One execution of a stage."""

    settings: S
    inputs: Mapping[str, Artifact]
    out: Location
    """The folder to fill. Files of an interrupted run are still there."""
    progress: Progress
    track: Callable[[Mapping[str, float], int], None]
    """Sends metrics of a step to the tracking server."""
    notify: Callable[[str], None]
    """Shows the user a message."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the parts of the artifact that is made."""

    def source(self, stage: str) -> Location:
        """The folder of an earlier stage's artifact."""
        return self.inputs[stage].location


class Stage(ABC, Generic[S]):
    """One step of a run. A subclass registers itself with `@STAGES.register`; there is one per file.

    The first line of its docstring is the help of its command.
    """

    name: ClassVar[str]
    recipe_kinds: ClassVar[tuple[str, ...]] = ("recipe",)
    """The kinds of recipe that can have this stage: see `Run.kind`."""
    needs: tuple[str, ...] = ()
    """Stages whose artifacts it reads."""
    uses: tuple[str, ...] = ()
    """Stages whose artifacts it reads if they are part of the run."""
    follows: tuple[str, ...] = ()
    """Stages after which it runs too, even if the run was asked to end with one of them."""
    compares: ClassVar[str | None] = None
    """The stage whose artifacts, one for each variant and seed of a recipe, it reads besides those that it needs. Their
    inputs are named by `run_name(variant, seed)`."""
    trains_encoder: ClassVar[bool] = False
    """Whether the `encoder/` in its artifact is the result of the run, which `register_as` names."""
    scores_run: ClassVar[bool] = False
    """Whether its metrics are those of the whole run on the tracking server."""

    def wanted(self, recipe: Any) -> bool:
        """Whether a recipe has this stage."""
        return True

    @abstractmethod
    def settings(self, recipe: Any) -> S:
        """The part of the recipe that this stage depends on."""

    def sources(self, settings: S) -> list[Location]:
        """The files that it reads from outside the artifacts; their content is part of the fingerprint."""
        return []

    @abstractmethod
    def run(self, job: Job[S]) -> dict[str, Any]:
        """Fill `job.out`; return the metrics for the manifest."""

    # What follows is not part of the code that makes the artifact (see `code_version`).

    def parts(self, settings: S) -> Mapping[str, Part]:
        """The parts of its artifact that other stages can read by themselves, each after those that it needs."""
        return {}

    def reads(self, settings: S) -> Mapping[str, Collection[str]]:
        """The parts that it reads of an input; an input that is not named is read as a whole. A change of the other
        parts changes nothing for it.
        """
        return {}

    def check(self, settings: S, prospects: Prospects, errors: CollectedErrors) -> None:
        """Collect what would end the stage with an error and can be known before the run, in a moment."""

    def demand(self, settings: S, prospects: Prospects) -> Demand:
        """What the stage needs at least."""
        return Demand()

    def encoder_shape(self, settings: S, artifact: Artifact | None) -> EncoderShape | None:
        """The shape of the encoder that a run starts from, for the stage that gives it; from its artifact, if that is
        complete.
        """
        return None

    def summary(self, artifact: Artifact, settings: S) -> Summary:
        """What is reported in the terminal."""
        return Summary()


def run_name(variant: str, seed: int) -> str:
    """The name of one run of a comparison."""
    return f"{variant}, seed {seed}"


STAGES = Registry[Stage[Any]]("STAGES", "stage", "name", "babelray.stages", in_recipes=False)
