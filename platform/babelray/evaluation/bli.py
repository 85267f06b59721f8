"""Bilingual lexicon induction: is a word's nearest neighbour in the other language one of its translations?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch

from babelray.vectors.retrieval import nearest
from babelray.vectors.word_vectors import WordVectors


def bli(source: WordVectors, target: WordVectors, pairs: Iterable[tuple[str, str]], csls: int = 10) -> dict[str, float]:
    """P@1, P@5 and MRR (over the first ten) by CSLS, over the source words that both vocabularies can answer.

    `coverage` is the share of the dictionary's source words that were asked: the source word is known, and
    so is at least one of its translations. CSLS' neighbourhoods are taken over the whole vocabularies.
    """
    gold: dict[str, set[int]] = defaultdict(set)
    asked: set[str] = set()
    for left, right in pairs:
        asked.add(left)
        if left in source.position and right in target.position:
            gold[left].add(target.position[right])
    if not gold:
        return {"p1": 0.0, "p5": 0.0, "mrr": 0.0, "words": 0, "coverage": 0.0}
    queries = torch.tensor([source.position[word] for word in gold])
    found = nearest(source.matrix, target.matrix, n=10, csls=csls)[1][queries].tolist()
    ranks = [
        next((rank for rank, position in enumerate(row, start=1) if position in gold[word]), 0)
        for word, row in zip(gold, found, strict=True)
    ]
    count = len(ranks)
    return {
        "p1": sum(rank == 1 for rank in ranks) / count,
        "p5": sum(1 <= rank <= 5 for rank in ranks) / count,
        "mrr": sum(1 / rank for rank in ranks if rank) / count,
        "words": count,
        "coverage": count / len(asked),
    }
