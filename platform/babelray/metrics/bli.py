"""Bilingual lexicon induction: is a word's nearest neighbour in the other language one of its translations?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from babelray.vectors.word_vectors import WordVectors

Pairs = list[tuple[str, str]]
RANKS = (1, 5, 10)


def bli(
    source: WordVectors,
    target: WordVectors,
    pairs: Iterable[tuple[str, str]],
    csls: int = 10,
    inverted_softmax: float = 0.0,
) -> dict[str, Any]:
    """P@1, P@5, P@10 and MRR (over the first ten) by CSLS, over the source words that both vocabularies can answer.

    `nn` holds the same by plain nearest neighbours, `isf` by the inverted softmax if its β is given. `coverage` is the
    share of the dictionary's source words that were asked: the source word is known, and so is at least one of its
    translations. `chance` is the P@1 of guessing. CSLS' neighbourhoods are taken over the whole vocabularies.
    """
    return rank_translations(source, target, pairs, csls, inverted_softmax).scores


@dataclass(frozen=True)
class TranslationRanks:
    """The rank of the first translation of each tested word among all words of the target; 0 if it is above ten."""

    csls: list[int]
    nn: list[int]
    isf: list[int] | None
    """By the inverted softmax, if it was asked for."""
    coverage: float
    chance: float

    @property
    def hits(self) -> list[int]:
        """Whether the nearest word (CSLS) is a translation, for each tested word: their mean is P@1."""
        return [int(rank == 1) for rank in self.csls]

    @property
    def scores(self) -> dict[str, Any]:
        """What `bli` gives."""
        counts = {"words": len(self.csls), "coverage": self.coverage, "chance": self.chance}
        inverted = {} if self.isf is None else {"isf": rank_scores(self.isf)}
        return {**rank_scores(self.csls), "nn": rank_scores(self.nn), **counts, **inverted}


def rank_translations(
    source: WordVectors,
    target: WordVectors,
    pairs: Iterable[tuple[str, str]],
    csls: int = 10,
    inverted_softmax: float = 0.0,
) -> TranslationRanks:
    """The rank of each word that both vocabularies can answer, in the order in which the dictionary first names it."""
    import torch

    from babelray.vectors.retrieval import nearest

    gold: dict[str, set[int]] = defaultdict(set)
    asked: set[str] = set()
    for left, right in pairs:
        asked.add(left)
        if left in source.position and right in target.position:
            gold[left].add(target.position[right])
    answers = sum(map(len, gold.values())) / max(1, len(gold))
    coverage, chance = len(gold) / max(1, len(asked)), answers / max(1, len(target))
    if not gold:
        return TranslationRanks([], [], None, coverage, chance)
    queries_QD = source.matrix[torch.tensor([source.position[word] for word in gold])]

    def ranks_by(**options: Any) -> list[int]:
        positions = nearest(queries_QD, target.matrix, max(RANKS), **options)[1].tolist()
        return _ranks(positions, list(gold.values()))

    inverted = {"inverted_softmax": inverted_softmax, "pool_PD": source.matrix}
    return TranslationRanks(
        csls=ranks_by(csls=csls, pool_PD=source.matrix),
        nn=ranks_by(),
        isf=ranks_by(**inverted) if inverted_softmax else None,
        coverage=coverage,
        chance=chance,
    )


def gold(tests: Mapping[str, Pairs], source: str, target: str, hub: str) -> Pairs:
    """The test pairs of any two languages, from those of each with the hub: words that share a hub word are a pair.

    >>> gold({"de": [("Hund", "dog")], "nl": [("hond", "dog")]}, "de", "nl", "en")
    [('Hund', 'hond')]
    >>> gold({"de": [("Hund", "dog")]}, "en", "de", "en")
    [('dog', 'Hund')]
    """
    from babelray.lexicon.pairs import pivot_pairs

    if target == hub:
        return tests.get(source, [])
    if source == hub:
        return [(b, a) for a, b in tests.get(target, [])]
    return pivot_pairs(tests.get(source, []), tests.get(target, []))


def _ranks(positions: list[list[int]], answers: list[set[int]]) -> list[int]:
    """Where the first right answer stands in each row; 0 if it does not."""
    return [
        next((rank for rank, position in enumerate(row, start=1) if position in right), 0)
        for row, right in zip(positions, answers, strict=True)
    ]


def rank_scores(ranks: Sequence[int]) -> dict[str, float]:
    """P@1, P@5, P@10 and MRR of ranks, of which 0 stands for none.

    >>> rank_scores([1, 0, 2, 10])
    {'p1': 0.25, 'p5': 0.5, 'p10': 0.75, 'mrr': 0.4}
    """
    count = max(1, len(ranks))
    precision = {f"p{k}": sum(1 <= rank <= k for rank in ranks) / count for k in RANKS}
    return {**precision, "mrr": sum(1 / rank for rank in ranks if rank) / count}


def flat_scores(scores: Mapping[str, Any]) -> dict[str, float]:
    """The scores of `bli` without nesting.

    >>> flat_scores({"p1": 0.5, "nn": {"p1": 0.25}})
    {'p1': 0.5, 'nn_p1': 0.25}
    """
    flat: dict[str, float] = {}
    for name, value in scores.items():
        flat |= {f"{name}_{inner}": v for inner, v in value.items()} if isinstance(value, Mapping) else {name: value}
    return flat
