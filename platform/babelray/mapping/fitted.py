"""What every method gives: a mapping that can be saved, loaded by one function, and applied to words it never saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from babelray.errors import DataError
from babelray.mapping.linear import DESCRIPTION, LinearMapping
from babelray.mapping.nonlinear import NonlinearMapping

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.storage import Place


class Mapping(Protocol):
    """A fitted transformation of one space."""

    def transform(self, vectors_ND: Tensor) -> Tensor:
        """Map vectors, of words seen or not."""
        ...

    def save(self, place: Place) -> None:
        """Write a folder: tensors as safetensors, the rest as JSON."""
        ...


def load_mapping(place: Place) -> Mapping:
    """The mapping that a folder holds, of whatever kind."""
    if not (place / "mapping.safetensors").exists():
        raise DataError(f"there is no mapping at {place}", "Name a folder that a mapping was saved in.")
    kind = (place / DESCRIPTION).read_json()["kind"] if (place / DESCRIPTION).exists() else "linear"
    return LinearMapping.load(place) if kind == "linear" else NonlinearMapping.load(place)
