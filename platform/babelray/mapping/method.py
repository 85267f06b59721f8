"""What a mapping method is: its settings, and `fit`. A method registers itself with `@MAPPING_METHODS.register`.

A method is one file of this package: its settings and its algorithm. A recipe reads the settings of all of them, so
torch is imported by the functions that need it.

Shapes: N and M words, D width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from babelray.config import Config
from babelray.errors import DataError
from babelray.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor, nn

    from babelray.mapping.checkpoint import Checkpoint
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.linear import Dictionary

Normalise = Literal["unit", "centred", "none"]
"""What is done to vectors first: length 1, centred, length 1 again; only centred; nothing."""
Similarity = Literal["cosine", "distance"]
"""What near means: a large cosine, or, where lengths count, a small distance."""
Notify = Callable[[str], None]
"""Receives the progress of a method as a sentence."""
OnProgress = Callable[[int, float], None]
"""Receives the number of an epoch or iteration, and its criterion or loss."""


class MappingMethod(Config):
    """A way to map two spaces into one. The docstring of a subclass is its help."""

    linear: ClassVar[bool] = True
    """Whether the fitted mapping is a matrix, so that mappings can be chained and refined together."""
    same_width: ClassVar[bool] = True
    """Whether both spaces must have the same number of dimensions."""
    changes_hub: ClassVar[bool] = False
    """Whether it maps the target in a way that depends on the source, so that several sources cannot share it."""
    resumable: ClassVar[bool] = False
    """Whether it has checkpoints."""
    unit_length: ClassVar[bool] = False
    """Whether it is defined for vectors of length 1 only."""

    method: str
    name: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Its name in tables, when a method is used in several ways; the method's own name by default."""
    normalise: Normalise = "unit"
    """What is done to vectors first: they get length 1, are centred, and get length 1 again; or they are only
    `centred`; or `none`. Where lengths count, near is what is at a small distance, not at a small angle."""

    @property
    def label(self) -> str:
        return self.name or self.method

    @property
    def unsupervised(self) -> bool:
        """Whether it works without a dictionary."""
        return False

    @property
    def compared_words(self) -> int:
        """Frequent words of each side of which it holds all similarities at once; 0 if it holds none."""
        return 0

    @classmethod
    def description(cls) -> str:
        """What it is: the docstring, as one paragraph."""
        return " ".join((cls.__doc__ or "").split())

    @classmethod
    def two_file_defaults(cls, has_dictionary: bool) -> dict[str, Any]:
        """Defaults that differ where two files of vectors are mapped, which share their space with no other.

        `has_dictionary`: whether there is one that people made.
        """
        return {}

    @classmethod
    def build_network(cls, **settings: Any) -> nn.Module:
        """A new network of a method that is not linear, to load a fitted mapping into."""
        raise NotImplementedError(f"{cls.__name__} fits no network")

    def with_equal_steps(self, rows: int, most_rows: int) -> Self:
        """The method with as many training steps on `rows` as on `most_rows`; itself if it is not trained by epochs."""
        return self

    def check_dictionary(self, given: bool) -> None:
        """Raise a ValueError if these settings need a dictionary that is not given, or have no use for one."""
        if not given and not self.unsupervised:
            methods = (MAPPING_METHODS.parse(name) for name in MAPPING_METHODS)
            names = ", ".join(method.method for method in methods if method.unsupervised)
            raise ValueError(
                f"the method {self.method} needs a dictionary as it is set; give one, or use a method that needs none: "
                f"{names}"
            )

    def check_shared_hub(self) -> None:
        """Raise a ValueError if several languages cannot be mapped to one hub with these settings."""
        if self.changes_hub:
            raise ValueError(
                f"method: {self.method} changes the hub too, for every language in another way: use it for two files"
            )
        if self.normalise != "unit":
            raise ValueError("normalise: the hub's space is of vectors of length 1; use other values for two files")

    def fit_resumably(
        self,
        source_ND: Tensor,
        target_MD: Tensor,
        dictionary: Dictionary | None,
        seed: int,
        notify: Notify,
        checkpoint: Checkpoint,
    ) -> tuple[Mapping, Mapping]:
        """The same mappings as those of `fit`, from a checkpoint on; a method without checkpoints starts over."""
        return self.fit(source_ND, target_MD, dictionary, seed, notify)

    @abstractmethod
    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[Mapping, Mapping]:
        """A mapping of each side into a space that they share."""

    def fit_to_hub(self, source_ND: Tensor, hub_MD: Tensor, dictionary: Dictionary | None, seed: int) -> Mapping:
        """A mapping that puts a language where the hub's vectors are once they are normalised and centred."""
        from babelray.mapping.linear import LinearMapping

        source, hub = fit_mappings(source_ND, hub_MD, dictionary, self, seed)
        if not (isinstance(source, LinearMapping) and isinstance(hub, LinearMapping)):
            return source  # the hub was left as it is
        return source.then(hub.matrix_DE.T)  # the hub was rotated at most: rotate back

    @model_validator(mode="after")
    def _has_unit_length(self) -> Self:
        if self.unit_length and self.normalise != "unit":
            raise ValueError(f"method: {self.method} needs normalise: unit")
        return self


MAPPING_METHODS = Registry[MappingMethod]("MAPPING_METHODS", "mapping method", "method", "babelray.mapping")
AnyMappingMethod = Annotated[SerializeAsAny[MappingMethod], BeforeValidator(MAPPING_METHODS.parse)]


def fit_mappings(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    method: MappingMethod,
    seed: int,
    notify: Notify = lambda message: None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Mapping, Mapping]:
    """A mapping of each side into a space that they share; `notify` receives the progress of methods that take long.

    With a `checkpoint` an interrupted fit resumes, to the same bits.
    """
    from babelray.mapping.linear import check_pairs

    check_pairs(source_ND, target_MD, dictionary, same_width=method.same_width)
    try:
        method.check_dictionary(dictionary is not None)
    except ValueError as error:
        raise DataError(str(error)) from None
    if checkpoint is not None:
        return method.fit_resumably(source_ND, target_MD, dictionary, seed, notify, checkpoint)
    return method.fit(source_ND, target_MD, dictionary, seed, notify)
