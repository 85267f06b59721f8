"""Whether a mapping helps: vectors of one encoder may agree already, and a mapping fitted on few pairs can undo that.

Hämmerl et al. (2022, section 3.2) keep the raw vectors of the languages that alignment harms; here held-out pairs of
the training dictionary decide, so that the test pairs stay unseen. Of many pairs a quarter is held out; of few, each
quarter scores a mapping fitted on the other three, since the result of a handful of words is chance.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.mapping.dictionary import positions
from babelray.mapping.linear import LinearMapping
from babelray.metrics.bli import bli

if TYPE_CHECKING:
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.linear import Dictionary
    from babelray.vectors.word_vectors import WordVectors

FOLDS = 4
MANY = 1000
"""Number of pairs from which on one quarter is enough to decide."""


def mapping_helps(
    source: WordVectors,
    hub: WordVectors,
    pairs: list[tuple[str, str]],
    fit: Callable[[Dictionary], Mapping],
) -> dict[str, Any]:
    """Fit on three quarters of the pairs and score both versions on the rest, by mean reciprocal rank.

    `hub` holds the vectors as all languages see them; `fit` gives a mapping into their space. Vectors are mapped only
    if that is better.
    """
    raw: Mapping = LinearMapping.identity(source.matrix)
    scores: dict[str, list[float]] = {"map": [], "raw": []}
    for fold in range(1 if len(pairs) >= MANY else FOLDS):
        fitted = [pair for number, pair in enumerate(pairs) if number % FOLDS != fold]
        source_words = {word for word, _ in fitted}
        held_out = [pair for number, pair in enumerate(pairs) if number % FOLDS == fold and pair[0] not in source_words]
        for name, mapping in (("map", fit(positions(source, hub, fitted))), ("raw", raw)):
            scores[name].append(bli(source.with_matrix(mapping.transform(source.matrix)), hub, held_out)["mrr"])
    mapped, unmapped = fmean(scores["map"]), fmean(scores["raw"])
    return {"mapped": mapped > unmapped, "mrr_mapped": mapped, "mrr_raw": unmapped}
