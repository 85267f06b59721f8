"""Mapped or raw? The vectors of one encoder may agree already, and a mapping fitted on few pairs can undo that.

Hämmerl et al. (2022, section 3.2) keep the raw vectors of the languages for which alignment does harm; here a
quarter of the training dictionary decides, so that the test pairs stay unseen.
"""

from __future__ import annotations

from typing import Any

from babelray.evaluation.bli import bli
from babelray.mapping.procrustes import Procrustes
from babelray.vectors.word_vectors import WordVectors


def compare(source: WordVectors, target: WordVectors, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Fit on three quarters of the pairs and judge both versions on the rest, by mean reciprocal rank."""
    fitted = [pair for number, pair in enumerate(pairs) if number % 4]
    seen = {word for word, _ in fitted}
    judged = [pair for number, pair in enumerate(pairs) if not number % 4 and pair[0] not in seen]
    rows = [(source.position[a], target.position[b]) for a, b in fitted]
    mapped = Procrustes.fit(source.matrix, target.matrix, rows).transform(source.matrix)
    raw = Procrustes.identity(source.matrix).transform(source.matrix)
    scores = {
        name: bli(source.with_matrix(matrix), target, judged)["mrr"] for name, matrix in (("map", mapped), ("raw", raw))
    }
    return {"mapped": scores["map"] >= scores["raw"], "mrr_mapped": scores["map"], "mrr_raw": scores["raw"]}
