"""The result of every method: a mapping that can be saved, loaded by one function, and applied to unseen words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from babelray.errors import DataError
from babelray.mapping.linear import DESCRIPTION, LinearMapping
from babelray.mapping.nonlinear import NonlinearMapping

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.storage import Location


class Mapping(Protocol):
    """A fitted transformation of one space."""

    def transform(self, vectors_ND: Tensor) -> Tensor:
        """Map vectors, of words seen or not."""
        ...

    def save(self, location: Location) -> None:
        """Write a folder: tensors as safetensors, the rest as JSON."""
        ...


def load_mapping(location: Location) -> Mapping:
    """The mapping that a folder holds, of whatever kind."""
    if not (location / "mapping.safetensors").exists():
        raise DataError(f"there is no mapping at {location}", "Name a folder that a mapping was saved in.")
    kind = (location / DESCRIPTION).read_json()["kind"]
    return LinearMapping.load(location) if kind == "linear" else NonlinearMapping.load(location)
