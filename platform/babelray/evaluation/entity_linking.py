"""Entity linking across languages: which concept of a knowledge base does a mention, in any language, stand for?

XL-BEL (Liu et al., 2021, "Learning Domain-Specialised Representations for Cross-Lingual Biomedical Entity Linking"; a
task of Vulić et al., 2023, section 4) has mentions in ten languages and UMLS, where a concept has many names, in
English and others. Mentions m and names s are encoded alone, without context, and names are ranked by cosine:

    r(m) = the rank of the first name s with C(s) ∩ C(m) ≠ ∅
    P@k = 1/N Σ_m [r(m) ≤ k]          MRR = 1/N Σ_m 1/r(m), where 1/r(m) is 0 beyond the first `DEPTH` names

C(m) are the concepts that a mention is annotated with, any of which is right, and C(s) those that the name stands for.
It is names that are counted up to k, as in XL-BEL, not concepts: five names may be of one concept. A mention whose
concepts have no name in the knowledge base cannot be linked and costs; `coverage` is the share of the others.

Where we differ from XL-BEL's own evaluation:
- A name that stands in the knowledge base twice, for two concepts, is one name with both. Otherwise chance decides
  which of two equal vectors comes first.
- A mention with a `+` in it, such as `K+`, is one mention. XL-BEL's evaluation cuts it, and asks for both parts.
- Vectors are means over subwords, as in Vulić et al., by default; Liu et al. take the first token's.

Files have a line for each mention or name, `CUI||text` or `CUI<TAB>text`; several concepts are joined by `|` or `+`.

Shapes: N mentions, M names of a block, D width, n nearest names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from babelray.errors import DataError
from babelray.lexicon.synonyms import LINE, read_names
from babelray.vectors.retrieval import nearest

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import Pooling, TextEncoder
    from babelray.storage import Place

KnowledgeBase = dict[str, str]
"""Names and the concepts that each stands for, joined by `|`: millions of names fit into memory as text."""

RANKS = (1, 5)
DEPTH = 10
"""Names that are looked at for each mention."""
NAMES = 1 << 15
"""Names whose vectors are in memory at once."""


class Mention(NamedTuple):
    """A text, and the concepts that it may be linked to."""

    text: str
    concepts: frozenset[str]


class Links(NamedTuple):
    """What was found for the mentions of a language, in their order."""

    ranks: list[int]
    """The rank of the first right name; 0 if it is not among the first `DEPTH`."""
    answers: list[str]
    """The nearest name and its concepts, as a line of a knowledge base."""
    coverage: float
    """The share of mentions that have a concept with a name."""

    def measures(self) -> dict[str, float]:
        count = len(self.ranks)
        return {
            **{f"p{k}": sum(1 <= rank <= k for rank in self.ranks) / count for k in RANKS},
            "mrr": sum(1 / rank for rank in self.ranks if rank) / count,
            "coverage": self.coverage,
            "mentions": count,
        }

    def predictions(self) -> dict[str, Any]:
        return {"hits": [int(rank == 1) for rank in self.ranks], "ranks": self.ranks, "answers": self.answers}


def entity_linking(
    encoder: TextEncoder,
    mentions: Mapping[str, Sequence[Mention]],
    names: KnowledgeBase,
    pooling: Pooling = "mean",
    hub: str = "en",
) -> dict[str, Links]:
    """Link the mentions of each language to the names of one knowledge base, which are in the language `hub`.

    Mentions of all languages are asked for together: each name is encoded once, and forgotten; or once for each way in
    which languages are mapped.
    """
    covered = {code: _covered(code, some, names) for code, some in mentions.items()}
    texts = list(names)
    readers = {code: encoder.speaking(hub, code) for code in mentions}
    found: dict[str, list[list[int]]] = {}
    for reader in dict.fromkeys(readers.values()):
        codes = [code for code in mentions if readers[code] is reader]
        asked = {code: [mention.text for mention in mentions[code]] for code in codes}
        vectors_ND = torch.cat([_encoded(encoder.speaking(code, hub), asked[code], pooling) for code in codes])
        blocks = (_encoded(reader, texts[start : start + NAMES], pooling) for start in range(0, len(texts), NAMES))
        positions = nearest_names(vectors_ND, blocks).split([len(some) for some in asked.values()])
        found |= {code: some_Nn.tolist() for code, some_Nn in zip(codes, positions, strict=True)}
    links = {}
    for code, some in mentions.items():
        nearby = [[texts[position] for position in row] for row in found[code]]
        ranks = [_rank(mention, near, names) for mention, near in zip(some, nearby, strict=True)]
        answers = [f"{names[near[0]]}||{near[0]}" for near in nearby]
        links[code] = Links(ranks, answers, covered[code] / len(some))
    return links


def nearest_names(mentions_ND: Tensor, blocks: Iterable[Tensor], n: int = DEPTH) -> Tensor:
    """Positions (N, n) of each mention's nearest names by cosine, best first; names (M, D) come block by block.

    No more than one block is needed at a time: the n nearest of all are among the n nearest of each.

    >>> nearest_names(torch.eye(3)[:1], [torch.eye(3)[1:], torch.ones(1, 3), torch.eye(3)[:1]], n=2).tolist()
    [[3, 2]]
    """
    best_Nn = mentions_ND.new_empty(len(mentions_ND), 0)
    positions_Nn = torch.empty(len(mentions_ND), 0, dtype=torch.long, device=mentions_ND.device)
    seen = 0
    for block_MD in blocks:
        scores_Nn, here_Nn = nearest(mentions_ND, block_MD, n)
        best_Nn, order_Nn = torch.cat([best_Nn, scores_Nn], 1).sort(stable=True, descending=True)
        positions_Nn = torch.cat([positions_Nn, here_Nn + seen], 1).gather(1, order_Nn)[:, :n]
        best_Nn = best_Nn[:, :n]
        seen += len(block_MD)
    return positions_Nn


def _rank(mention: Mention, near: Sequence[str], names: KnowledgeBase) -> int:
    """Where the first right name stands; 0 if it does not."""
    right = (rank for rank, name in enumerate(near, start=1) if not mention.concepts.isdisjoint(names[name].split("|")))
    return next(right, 0)


def _covered(code: str, mentions: Sequence[Mention], names: KnowledgeBase) -> int:
    """How many mentions have a concept with a name."""
    wanted = frozenset().union(*(mention.concepts for mention in mentions))
    known = {concept for joined in names.values() for concept in joined.split("|") if concept in wanted}
    count = sum(not mention.concepts.isdisjoint(known) for mention in mentions)
    if not count:
        problem = f"no mention in language {code!r} has a concept with a name in the knowledge base"
        wants, has = min(wanted, default="none"), next(iter(names.values()), "none")
        raise DataError(problem, f"The mentions are linked to such as {wants}; the knowledge base has such as {has}.")
    return count


def _encoded(encoder: TextEncoder, texts: Sequence[str], pooling: Pooling) -> Tensor:
    vectors_ND = encoder.sentences(texts, pooling)
    if broken := int((~vectors_ND.isfinite().all(1)).sum()):
        problem = f"the vectors of {broken} of {len(texts)} mentions or names are not numbers"
        raise DataError(problem, "The training of the encoder has diverged, or its weights are damaged.")
    return vectors_ND


def read_mentions(place: Place) -> list[Mention]:
    """The mentions of a file, in its order; XL-BEL's `de_1k_test_query.txt`."""
    found = [Mention(text, frozenset(concepts)) for concepts, text in read_names(place)]
    if not found:
        raise DataError(f"{place}, line 1: there are no mentions", LINE)
    return found


def read_knowledge_base(places: Sequence[Place]) -> KnowledgeBase:
    """The names in some files, in their order; a name that stands there again adds its concepts."""
    names: KnowledgeBase = {}
    for place in places:
        for concepts, name in read_names(place):
            known = names[name].split("|") if name in names else []
            names[name] = "|".join(dict.fromkeys([*known, *concepts]))
    if not names:
        where = f"{places[0]}, line 1" if places else "the knowledge base"
        raise DataError(f"{where}: there are no names", LINE)
    return names
