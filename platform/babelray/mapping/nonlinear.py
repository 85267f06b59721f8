"""A fitted mapping that is a network: x ↦ s · f(x' / s), with x' the prepared, perhaps rotated vectors.

s is a length: inside, an entry of a vector is about 1, whatever the space; outside, lengths are those of the space.

Shapes: N words, D width.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from babelray.mapping.linear import DESCRIPTION, LinearMapping
from babelray.mapping.method import MAPPING_METHODS
from babelray.vectors.word_vectors import read_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from babelray.storage import Location

ROWS = 8192
"""Vectors that are mapped at once."""


def build_network(method: str, settings: dict[str, Any], seed: int | None = None) -> nn.Module:
    """A new network of a mapping method; with a seed its weights depend on the seed alone."""
    if seed is None:
        return MAPPING_METHODS.find(method).build_network(**settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MAPPING_METHODS.find(method).build_network(**settings)


@dataclass(frozen=True)
class NonlinearMapping:
    """A network of a method, and the linear preparation of its input; `settings` build the network again."""

    preparation: LinearMapping
    scale: float
    network: nn.Module
    method: str
    settings: dict[str, Any]

    def transform(self, vectors_ND: Tensor) -> Tensor:
        """Map vectors, of words seen or not."""
        with torch.no_grad():
            blocks = self.preparation.transform(vectors_ND).div_(self.scale).split(ROWS)
            return torch.cat([self.network(block_BD) for block_BD in blocks]).mul_(self.scale)

    def save(self, location: Location) -> None:
        weights = {f"network.{name}": value.contiguous() for name, value in self.network.state_dict().items()}
        description = {
            "kind": self.method,
            "unit": self.preparation.unit,
            "scale": self.scale,
            "settings": self.settings,
        }
        tensors = {"mean": self.preparation.mean_D, "matrix": self.preparation.matrix_DE.contiguous()}
        with location.local_output() as folder:
            save_file(tensors | weights, folder / "mapping.safetensors")
            (folder / DESCRIPTION).write_text(json.dumps(description))

    @classmethod
    def load(cls, location: Location) -> NonlinearMapping:
        description = (location / DESCRIPTION).read_json()
        method, settings = description["kind"], description["settings"]
        with location.local_input() as folder:
            tensors = read_tensors(folder / "mapping.safetensors")
        network = build_network(method, settings)
        weights = {name.removeprefix("network."): value for name, value in tensors.items() if "network." in name}
        network.load_state_dict(weights)
        preparation = LinearMapping(tensors["mean"], tensors["matrix"], description["unit"])
        return cls(preparation, description["scale"], network, method, settings)
