"""The words whose vectors are nearest to that of a word, in its own language or in another."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from babelray.errors import DataError

if TYPE_CHECKING:
    from babelray.vectors.word_vectors import WordVectors


def neighbours(
    vectors: WordVectors, word: str, count: int = 10, target: WordVectors | None = None
) -> list[tuple[str, float]]:
    """The nearest words by cosine, best first; for an unknown word an error with the nearest spellings.

    They are other words of the same vectors, or words of a `target` in the same space. The mean of all words of a side
    is subtracted first: a component that all vectors share makes any two words similar.
    """
    from babelray.vectors.retrieval import nearest

    if word not in vectors.position:
        spellings = difflib.get_close_matches(word.lower(), vectors.words, n=5)
        raise DataError(
            f"there is no vector of {word!r}", f"Similar words: {', '.join(spellings)}." if spellings else ""
        )
    if target is not None and target.dimension != vectors.dimension:
        problem = f"the vectors have {vectors.dimension} and {target.dimension} dimensions"
        raise DataError(problem, "Align them first: neighbours in another language need one space.")
    own = vectors.position[word]
    query_1D = vectors.matrix[own : own + 1] - vectors.matrix.mean(0)
    others = vectors if target is None else target
    scores, positions = nearest(query_1D, others.matrix - others.matrix.mean(0), count + (target is None))
    pairs = zip(positions[0].tolist(), scores[0].tolist(), strict=True)
    return [(others.words[i], score) for i, score in pairs if target is not None or i != own][:count]
