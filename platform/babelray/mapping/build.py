"""Mappings of two spaces into one, by the method that the config names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from babelray.errors import DataError
from babelray.mapping.bootstrapping import bootstrap
from babelray.mapping.fcnn import fcnn
from babelray.mapping.gan_real_nvp import gan_real_nvp
from babelray.mapping.gbdd import gbdd
from babelray.mapping.least_squares import least_squares
from babelray.mapping.linear import Dictionary, LinearMapping, check_pairs, unit_centred
from babelray.mapping.muse import muse
from babelray.mapping.normalisation import normalisation
from babelray.mapping.procrustes import procrustes
from babelray.mapping.rcsls import rcsls
from babelray.mapping.real_nvp import real_nvp
from babelray.mapping.vecmap import vecmap

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from babelray.mapping.bootstrapping import Constraint
    from babelray.mapping.config import MappingConfig
    from babelray.mapping.fitted import Mapping

    Say = Callable[[str], None]


def map_both(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: MappingConfig,
    seed: int,
    say: Say = lambda text: None,
) -> tuple[Mapping, Mapping]:
    """A mapping of each side into a space that they share; `say` is told how methods that take long go on."""
    check_pairs(source_ND, target_MD, dictionary, same_width=config.method != "least-squares")
    if dictionary is None and not config.unsupervised:
        raise DataError(
            f"the method {config.method} needs a dictionary",
            "Give one, or use the method vecmap, muse, normalisation or gan-real-nvp.",
        )
    if config.method == "vecmap":
        return vecmap(
            source_ND,
            target_MD,
            dictionary,
            config.vecmap,
            seed,
            lambda i, keep, objective: say(f"iteration {i}, {keep:.0%} of the cells, objective {objective:.4f}"),
        )
    if config.method == "normalisation":
        return normalisation(source_ND, target_MD)
    if config.method in ("muse", "gan-real-nvp"):
        return _by_a_game(source_ND, target_MD, dictionary, config, seed, say)
    assert dictionary is not None  # checked above; the rest learn from nothing else
    data, how = (source_ND, target_MD, dictionary), config.normalise
    told = lambda i, criterion: say(f"epoch {i}, criterion {criterion:.4f}")  # noqa: E731
    if config.method == "least-squares":
        return least_squares(*data, config.ridge, config.towards, how)
    if config.method == "rcsls":
        return rcsls(*data, config.rcsls, lambda i, loss: say(f"step {i}, loss {loss:.4f}"))
    if config.method == "gbdd":
        return gbdd(*data, config.gbdd_directions, how)
    if config.method == "fcnn":
        return fcnn(*data, config.fcnn, seed, told, how)
    if config.method == "real-nvp":
        return real_nvp(*data, config.real_nvp, seed, told, how)
    return procrustes(*data, how)


def _by_a_game(
    source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, config: MappingConfig, seed: int, say: Say
) -> tuple[Mapping, Mapping]:
    """A method that needs no dictionary, and its bootstrapping."""
    how, again = config.normalise, config.bootstrap
    told = lambda i, criterion: say(f"epoch or refinement {i}, criterion {criterion:.4f}")  # noqa: E731
    if config.method == "muse":
        settings = config.muse.model_copy(update={"refinements": 0}) if again else config.muse
        play: Callable[..., tuple[Mapping, Mapping]] = partial(muse, config=settings)
    else:
        play = partial(gan_real_nvp, config=config.gan_real_nvp)
    play = partial(play, source_ND, target_MD, dictionary, seed=seed, advance=told, how=how)
    target = LinearMapping.identity(target_MD, how)
    mapping = play()[0] if again is None or again.first == "method" else LinearMapping.identity(source_ND, how)
    if again is None:
        return mapping, target

    def train(mapping: Mapping, constraint: Constraint) -> Mapping:
        return play(before=mapping, constraint=constraint)[0]

    found = lambda i, pairs: say(f"bootstrapping {i}, {pairs:,} pairs")  # noqa: E731
    return bootstrap(source_ND, target_MD, mapping, train, again, how, found), target


def map_to_hub(
    source_ND: Tensor, hub_MD: Tensor, dictionary: Dictionary | None, config: MappingConfig, seed: int
) -> Mapping:
    """A mapping that puts a language where the hub's vectors are once they are normalised and centred."""
    source, hub = map_both(source_ND, hub_MD, dictionary, config, seed)
    if not (isinstance(source, LinearMapping) and isinstance(hub, LinearMapping)):
        return source  # the hub was left as it is
    if config.method == "normalisation":
        return source.then(torch.diag(unit_centred(hub_MD)[0].std(0, correction=0)))  # spread as the hub is
    return source.then(hub.matrix_DE.T)  # the hub was turned at most: turn back
