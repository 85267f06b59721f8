"""Mapped or raw? The vectors of one encoder may agree already, and a mapping fitted on few pairs can undo that.

Hämmerl et al. (2022, section 3.2) keep the raw vectors of the languages for which alignment does harm; here a
quarter of the training dictionary decides, so that the test pairs stay unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from babelray.evaluation.bli import bli
from babelray.mapping.dictionary import positions
from babelray.mapping.linear import LinearMapping

if TYPE_CHECKING:
    from babelray.mapping.linear import Dictionary
    from babelray.vectors.word_vectors import WordVectors


def compare(
    source: WordVectors,
    hub: WordVectors,
    pairs: list[tuple[str, str]],
    fit: Callable[[Dictionary], LinearMapping],
) -> dict[str, Any]:
    """Fit on three quarters of the pairs and judge both versions on the rest, by mean reciprocal rank.

    `hub` is as all languages see it; `fit` gives a mapping into its space.
    """
    fitted = [pair for number, pair in enumerate(pairs) if number % 4]
    seen = {word for word, _ in fitted}
    judged = [pair for number, pair in enumerate(pairs) if not number % 4 and pair[0] not in seen]
    versions = {"map": fit(positions(source, hub, fitted)), "raw": LinearMapping.identity(source.matrix)}
    scores = {
        name: bli(source.with_matrix(mapping.transform(source.matrix)), hub, judged)["mrr"]
        for name, mapping in versions.items()
    }
    return {"mapped": scores["map"] >= scores["raw"], "mrr_mapped": scores["map"], "mrr_raw": scores["raw"]}
