"""Mappings of two spaces into one, by the method that the config names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from babelray.errors import DataError
from babelray.mapping.least_squares import least_squares
from babelray.mapping.linear import Dictionary, LinearMapping, check_pairs
from babelray.mapping.muse import muse
from babelray.mapping.procrustes import procrustes
from babelray.mapping.rcsls import rcsls
from babelray.mapping.vecmap import vecmap

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from babelray.mapping.config import MappingConfig


def map_both(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: MappingConfig,
    seed: int,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[LinearMapping, LinearMapping]:
    """A mapping of each side into a space that they share; `say` is told how methods that take long go on."""
    check_pairs(source_ND, target_MD, dictionary, same_width=config.method != "least-squares")
    if dictionary is None and not config.unsupervised:
        raise DataError(f"the method {config.method} needs a dictionary", "Give one, or use the method vecmap or muse.")
    if config.method == "vecmap":
        return vecmap(
            source_ND,
            target_MD,
            dictionary,
            config.vecmap,
            seed,
            lambda i, keep, objective: say(f"iteration {i}, {keep:.0%} of the cells, objective {objective:.4f}"),
        )
    if config.method == "muse":
        told = lambda i, criterion: say(f"epoch or refinement {i}, criterion {criterion:.4f}")  # noqa: E731
        return muse(source_ND, target_MD, dictionary, config.muse, seed, told)
    assert dictionary is not None  # checked above; the rest learn from nothing else
    if config.method == "least-squares":
        return least_squares(source_ND, target_MD, dictionary, config.ridge, config.towards)
    if config.method == "rcsls":
        return rcsls(source_ND, target_MD, dictionary, config.rcsls, lambda i, loss: say(f"step {i}, loss {loss:.4f}"))
    return procrustes(source_ND, target_MD, dictionary)


def map_to_hub(
    source_ND: Tensor, hub_MD: Tensor, dictionary: Dictionary | None, config: MappingConfig, seed: int
) -> LinearMapping:
    """A mapping that puts a language where the hub's vectors are once they are normalised and centred."""
    source, hub = map_both(source_ND, hub_MD, dictionary, config, seed)
    return source.then(hub.matrix_DE.T)  # the hub was turned at most: turn back
