"""A fitted mapping that is a network: x ↦ s · f(x' / s), with x' the prepared, perhaps turned vectors.

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
from babelray.vectors.word_vectors import read_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from babelray.storage import Place

ROWS = 8192
"""Vectors that are mapped at once."""


def build_network(kind: str, settings: dict[str, Any]) -> nn.Module:
    """A new network of a kind, `flow` or `fcnn`."""
    from babelray.mapping.fcnn import Fcnn
    from babelray.mapping.flow import FlowPair

    return {"flow": FlowPair, "fcnn": Fcnn}[kind](**settings)


@dataclass(frozen=True)
class NonlinearMapping:
    """A network, and what comes before it; `settings` are those that it is built again with."""

    before: LinearMapping
    scale: float
    network: nn.Module
    kind: str
    settings: dict[str, Any]

    def transform(self, vectors_ND: Tensor) -> Tensor:
        """Map vectors, of words seen or not."""
        with torch.no_grad():
            blocks = self.before.transform(vectors_ND).div_(self.scale).split(ROWS)
            return torch.cat([self.network(block_BD) for block_BD in blocks]).mul_(self.scale)

    def save(self, place: Place) -> None:
        weights = {f"network.{name}": value.contiguous() for name, value in self.network.state_dict().items()}
        description = {"kind": self.kind, "unit": self.before.unit, "scale": self.scale, "settings": self.settings}
        tensors = {"mean": self.before.mean_D, "matrix": self.before.matrix_DE.contiguous()}
        with place.local_output() as folder:
            save_file(tensors | weights, folder / "mapping.safetensors")
            (folder / DESCRIPTION).write_text(json.dumps(description))

    @classmethod
    def load(cls, place: Place) -> NonlinearMapping:
        description = (place / DESCRIPTION).read_json()
        kind, settings = description["kind"], description["settings"]
        with place.local_input() as folder:
            tensors = read_tensors(folder / "mapping.safetensors")
        network = build_network(kind, settings)
        weights = {name.removeprefix("network."): value for name, value in tensors.items() if "network." in name}
        network.load_state_dict(weights)
        before = LinearMapping(tensors["mean"], tensors["matrix"], description["unit"])
        return cls(before, description["scale"], network, kind, settings)
