"""The held-out part of a run's corpus: sentence and word pairs of each language with the hub."""

from __future__ import annotations

from babelray.errors import DataError
from babelray.evaluation.benchmark import System

Pairs = list[tuple[str, str]]


def held_out_pairs(system: System, kind: str) -> dict[str, Pairs]:
    """The test pairs of each language with the hub, where there are any; `kind` is `parallel` or `dictionary`."""
    from babelray.lexicon.pairs import read_pairs

    if system.corpus is None:
        raise DataError("there is no corpus to take held-out data from", "Use this benchmark in a recipe.")
    pairs = {}
    for code in system.others:
        folder = system.corpus / kind / f"{code}-{system.hub}"
        pairs[code] = [(pair.source, pair.target) for pair in read_pairs(folder, "test")]
    return {code: own for code, own in pairs.items() if own}
