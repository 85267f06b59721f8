"""The size of an encoder, from its configuration alone: no weights are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.encoder.load import read_config

if TYPE_CHECKING:
    from babelray.encoder.scratch import ArchitectureConfig
    from babelray.storage import AnyPath


@dataclass(frozen=True)
class EncoderShape:
    """The number of layers, their width, and the size of the vocabulary."""

    layers: int
    width: int
    vocabulary: int

    @property
    def parameters(self) -> int:
        """About how many parameters it has: embeddings, and 12 width² per layer.

        >>> round(EncoderShape(12, 768, 250_002).parameters / 1e6)  # XLM-R base has 278 million
        277
        """
        return self.width * self.vocabulary + 12 * self.layers * self.width**2

    @classmethod
    def of(cls, path: AnyPath) -> EncoderShape:
        """The shape of the encoder in a folder or of a name; an error if there is none."""
        config = read_config(path)
        return cls(config.num_hidden_layers, config.hidden_size, config.vocab_size)

    @classmethod
    def planned(cls, architecture: ArchitectureConfig) -> EncoderShape:
        """The shape of an encoder that will be trained from scratch."""
        return cls(architecture.layers, architecture.width, architecture.vocabulary)
