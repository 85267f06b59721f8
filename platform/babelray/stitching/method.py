"""What a stitching method is: its settings, and how words of a target language get embeddings of the encoder.

A method registers itself with `@STITCHING_METHODS.register`. Recipes import its module, which therefore loads torch
only when it is used.

Shapes: V pieces of the source vocabulary, N words and parts of words of the target language, D width of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, SerializeAsAny

from babelray.config import Config
from babelray.registry import Registry
from babelray.stitching.anchors import AnchorConfig

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.stitching.anchors import Anchors
    from babelray.stitching.target import Target

Neighbours = Annotated[int, Field(ge=1)] | Literal["all"]


class Start(NamedTuple):
    """What the fine-tuning in the hub starts from. Systems whose starts are equal share one fine-tuning."""

    encoder: str | None = None
    """A name or a folder; None: the run's own encoder."""
    adapt_steps: int = 0
    freeze_embeddings: bool = False
    source: StitchingMethod | None = None
    """The method that replaces the source embeddings, for each target language in another way; None: they stay."""


class StitchingMethod(Config):
    """A way to use an encoder of the hub for another language. The docstring of a subclass is its help."""

    swaps: ClassVar[bool] = True
    """Whether it makes embeddings of the target language, which replace those of the hub after the fine-tuning."""
    baseline: ClassVar[bool] = False
    """Whether the differences of all other systems to this one are tested for significance."""

    method: str

    def start(self) -> Start | None:
        """What the fine-tuning in the hub starts from; None if no encoder is fine-tuned."""
        return None

    def find_anchors(self, target: Target, seed: int) -> Anchors | None:
        """The anchors; None if the method uses none."""
        return None

    def source_embeddings(self, target: Target, seed: int) -> Tensor:
        """F^s (V, D): replacements of the source embeddings, for methods that `start` names as their source."""
        raise NotImplementedError(f"{self.method} keeps the source embeddings")

    def target_embeddings(self, target: Target, seed: int) -> Tensor:
        """F^t (N, D): the words of the target language and their parts, in the space of the encoder's embeddings."""
        raise NotImplementedError(f"{self.method} makes no embeddings")

    def classify(self, texts_NE: Tensor, labels_N: Tensor, tests_ME: Tensor) -> Tensor:
        """The classes (M) of texts by their averaged static vectors, for methods without a fine-tuning."""
        raise NotImplementedError(f"{self.method} classifies with an encoder")


class FineTunedMethod(StitchingMethod):
    """A method that fine-tunes the encoder in the hub."""

    adapt_steps: int = Field(0, ge=0)
    """Steps of masked language modelling on the hub's text before the fine-tuning. They adapt the encoder's body to its
    input embeddings, which stay as they are."""
    freeze_embeddings: bool = False
    """Whether the fine-tuning leaves the source embeddings as they are, so that those of the target still fit."""

    def start(self) -> Start:
        return Start(adapt_steps=self.adapt_steps, freeze_embeddings=self.freeze_embeddings)


class AnchoredMethod(FineTunedMethod):
    """A method that needs translation pairs."""

    anchors: AnchorConfig = AnchorConfig()

    def find_anchors(self, target: Target, seed: int) -> Anchors:
        return target.find_anchors(self.anchors, seed)


def neighbour_count(k: Neighbours) -> int | None:
    """The number of nearest neighbours; None for all."""
    return None if k == "all" else k


STITCHING_METHODS = Registry[StitchingMethod](
    "STITCHING_METHODS", "stitching method", "method", "babelray.stitching", default="relative"
)
AnyStitchingMethod = Annotated[SerializeAsAny[StitchingMethod], BeforeValidator(STITCHING_METHODS.parse)]
