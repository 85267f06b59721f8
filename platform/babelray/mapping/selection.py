"""Mapped or raw? The vectors of one encoder may agree already, and a mapping fitted on few pairs can undo that.

Hämmerl et al. (2022, section 3.2) keep the raw vectors of the languages for which alignment does harm; here pairs of
the training dictionary that a mapping was not fitted on decide, so that the test pairs stay unseen. A quarter is enough
of many; of few, each quarter judges a mapping fitted on the other three, since a handful of words decides by luck.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.evaluation.bli import bli
from babelray.mapping.dictionary import positions
from babelray.mapping.linear import LinearMapping

if TYPE_CHECKING:
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.linear import Dictionary
    from babelray.vectors.word_vectors import WordVectors

FOLDS = 4
MANY = 1000
"""Of so many pairs a quarter judges well enough."""


def compare(
    source: WordVectors,
    hub: WordVectors,
    pairs: list[tuple[str, str]],
    fit: Callable[[Dictionary], Mapping],
) -> dict[str, Any]:
    """Fit on three quarters of the pairs and judge both versions on the rest, by mean reciprocal rank.

    `hub` is as all languages see it; `fit` gives a mapping into its space. Vectors are mapped only if that is better.
    """
    raw: Mapping = LinearMapping.identity(source.matrix)
    scores: dict[str, list[float]] = {"map": [], "raw": []}
    for fold in range(1 if len(pairs) >= MANY else FOLDS):
        fitted = [pair for number, pair in enumerate(pairs) if number % FOLDS != fold]
        seen = {word for word, _ in fitted}
        judged = [pair for number, pair in enumerate(pairs) if number % FOLDS == fold and pair[0] not in seen]
        for name, mapping in (("map", fit(positions(source, hub, fitted))), ("raw", raw)):
            scores[name].append(bli(source.with_matrix(mapping.transform(source.matrix)), hub, judged)["mrr"])
    mapped, unmapped = fmean(scores["map"]), fmean(scores["raw"])
    return {"mapped": mapped > unmapped, "mrr_mapped": mapped, "mrr_raw": unmapped}
