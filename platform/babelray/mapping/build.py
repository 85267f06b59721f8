"""The mapping of a language into the hub's space, by the method that the config names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from babelray.mapping.least_squares import least_squares
from babelray.mapping.linear import Dictionary, LinearMapping, check_pairs
from babelray.mapping.procrustes import procrustes
from babelray.mapping.rcsls import rcsls
from babelray.mapping.vecmap import vecmap

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.config import AlignConfig


def map_to_hub(
    source_ND: Tensor, hub_MD: Tensor, dictionary: Dictionary | None, config: AlignConfig, seed: int
) -> LinearMapping:
    """A mapping that puts a language where the hub's vectors are once they are normalised and centred."""
    check_pairs(source_ND, hub_MD, dictionary, same_width=config.method != "least-squares")
    if config.method == "vecmap":
        source, hub = vecmap(source_ND, hub_MD, dictionary, config.vecmap, seed)
    elif dictionary is None:
        raise ValueError(f"{config.method} needs a dictionary")
    elif config.method == "least-squares":
        source, hub = least_squares(source_ND, hub_MD, dictionary, config.ridge)
    elif config.method == "rcsls":
        source, hub = rcsls(source_ND, hub_MD, dictionary, config.rcsls)
    else:
        source, hub = procrustes(source_ND, hub_MD, dictionary)
    return LinearMapping(source.mean_D, source.matrix_DE @ hub.matrix_DE.T)  # the hub was turned at most: turn back
