"""Entity linking across languages: the concept of a knowledge base that a mention, in any language, refers to.

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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import model_validator

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS, EncoderBenchmark, Result, System
from babelray.evaluation.data_languages import describe_unread, languages_of_files
from babelray.lexicon.synonyms import LINE, read_names
from babelray.storage import Location

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import Pooling, TextEncoder

KnowledgeBase = dict[str, str]
"""Names and the concepts that each stands for, joined by `|`: millions of names fit into memory as text."""

RANKS = (1, 5)
DEPTH = 10
"""Names that are ranked for each mention."""
NAMES = 1 << 15
"""Names whose vectors are in memory at once."""


@BENCHMARKS.register
class EntityLinking(EncoderBenchmark):
    """Share of mentions, each encoded alone, whose nearest name in the knowledge base names the same concept. XL-BEL by
    Liu et al. (2021), as used by Vulić et al. (2023).
    """

    title: ClassVar[str] = "Entity linking"
    main_metric: ClassVar[str] = "p1"
    columns: ClassVar[Mapping[str, str]] = {
        "mentions": ",.0f",
        "coverage": "%",
        "p1": "%",
        "p5": "%",
        "mrr": ".3f",
    }
    metric_titles: ClassVar[Mapping[str, str]] = {"coverage": "can be linked"}

    examples: ClassVar[Mapping[str, str]] = {
        "data": "{lang}_1k_test_query.txt (one mention per line: `C0011849||Zucker`)",
        "knowledge_base": "umls.txt (one name per line: `C0011849||diabetes mellitus`)",
    }
    benchmark: Literal["entity-linking"] = "entity-linking"
    data: str
    """Mentions, with {lang} for the language: XL-BEL's `{lang}_1k_test_query.txt`."""
    knowledge_base: str
    """A file of names, one `CUI||name` per line, or a pattern of several; with `{lang}`, one for each language."""
    languages: list[str] | None = None
    """Only these; all that have a file by default."""
    hub: str = "en"
    """The language of the names, unless each language has its own knowledge base."""
    pooling: Literal["mean", "first", "last"] = "mean"
    layer: int | None = -1
    """The last, as in Vulić et al. (2023)."""

    @model_validator(mode="after")
    def _data_name_the_language(self) -> EntityLinking:
        if "{lang}" not in self.data:
            raise ValueError("data must have {lang} in it, which is replaced by a language's code")
        return self

    def _mention_files(self) -> dict[str, Location]:
        codes = self.languages or languages_of_files(self.data).codes
        locations = {code: Location.parse(self.data.replace("{lang}", code)) for code in codes}
        files = {code: location for code, location in locations.items() if location.is_file()}
        missing = [str(location) for code, location in locations.items() if code not in files]
        if not files or (self.languages and missing):
            where = missing[0] if self.languages else self.data
            raise DataError(f"there are no mentions at {where}", "Give files such as `{lang}_1k_test_query.txt`.")
        return files

    def omissions(self) -> list[str]:
        return [] if self.languages else describe_unread(languages_of_files(self.data).unread)

    def _names(self, code: str) -> list[Location]:
        location = Location.parse(self.knowledge_base.replace("{lang}", code))
        files = location.glob()
        if not files:
            raise DataError(f"there is no knowledge base at {location}", "Give a file with one `CUI||name` per line.")
        return files

    def sources(self, languages: Sequence[str] = ()) -> list[Location]:
        mentions = self._mention_files()
        names = {location for code in mentions for location in self._names(code)}
        return [*mentions.values(), *sorted(names - {*mentions.values()})]

    def run(self, encoder: TextEncoder, system: System) -> Result:
        mentions = {code: read_mentions(location) for code, location in self._mention_files().items()}
        sharing: dict[tuple[Location, ...], list[str]] = {}
        for code in mentions:
            sharing.setdefault(tuple(self._names(code)), []).append(code)
        links: dict[str, Links] = {}
        for locations, codes in sharing.items():
            names = read_knowledge_base(locations)
            hub = codes[0] if "{lang}" in self.knowledge_base else self.hub
            links |= entity_linking(encoder, {code: mentions[code] for code in codes}, names, self.pooling, hub)
        return Result(
            {code: links[code].metrics() for code in mentions},
            {code: links[code].predictions() for code in mentions},
            chance={code: links[code].chance for code in mentions},
        )


class Mention(NamedTuple):
    """A text, and the concepts that it may be linked to."""

    text: str
    concepts: frozenset[str]


class Links(NamedTuple):
    """The results of the mentions of a language, in their order."""

    ranks: list[int]
    """The rank of the first right name; 0 if it is not among the first `DEPTH`."""
    answers: list[str]
    """The nearest name and its concepts, as a line of a knowledge base."""
    coverage: float
    """The share of mentions that have a concept with a name."""
    chance: float
    """P@1 of guessing a name."""

    def metrics(self) -> dict[str, float]:
        count = len(self.ranks)
        return {
            **{f"p{k}": sum(1 <= rank <= k for rank in self.ranks) / count for k in RANKS},
            "mrr": sum(1 / rank for rank in self.ranks if rank) / count,
            "coverage": self.coverage,
            "mentions": count,
        }

    def predictions(self) -> dict[str, Any]:
        return {"example_scores": [int(rank == 1) for rank in self.ranks], "ranks": self.ranks, "answers": self.answers}


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
    import torch

    covered = {code: _covered(code, some, names) for code, some in mentions.items()}
    texts = list(names)
    readers = {code: encoder.for_language(hub, code) for code in mentions}
    nearest_of: dict[str, list[list[int]]] = {}
    for reader in dict.fromkeys(readers.values()):
        codes = [code for code in mentions if readers[code] is reader]
        asked = {code: [mention.text for mention in mentions[code]] for code in codes}
        vectors_ND = torch.cat([_encoded(encoder.for_language(code, hub), asked[code], pooling) for code in codes])
        blocks = (_encoded(reader, texts[start : start + NAMES], pooling) for start in range(0, len(texts), NAMES))
        positions = nearest_names(vectors_ND, blocks).split([len(some) for some in asked.values()])
        nearest_of |= {code: some_Nn.tolist() for code, some_Nn in zip(codes, positions, strict=True)}
    links = {}
    for code, some in mentions.items():
        nearby = [[texts[position] for position in row] for row in nearest_of[code]]
        ranks = [_rank(mention, near, names) for mention, near in zip(some, nearby, strict=True)]
        answers = [f"{names[near[0]]}||{near[0]}" for near in nearby]
        links[code] = Links(ranks, answers, covered[code] / len(some), _chance(some, names))
    return links


def nearest_names(mentions_ND: Tensor, blocks: Iterable[Tensor], n: int = DEPTH) -> Tensor:
    """Positions (N, n) of each mention's nearest names by cosine, best first; names (M, D) come block by block.

    No more than one block is needed at a time: the n nearest of all are among the n nearest of each.

    >>> import torch
    >>> nearest_names(torch.eye(3)[:1], [torch.eye(3)[1:], torch.ones(1, 3), torch.eye(3)[:1]], n=2).tolist()
    [[3, 2]]
    """
    import torch

    from babelray.vectors.retrieval import nearest

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
    named = {concept for joined in names.values() for concept in joined.split("|") if concept in wanted}
    count = sum(not mention.concepts.isdisjoint(named) for mention in mentions)
    if not count:
        problem = f"no mention in language {code!r} has a concept with a name in the knowledge base"
        wants, has = min(wanted, default="none"), next(iter(names.values()), "none")
        raise DataError(problem, f"The mentions are linked to such as {wants}; the knowledge base has such as {has}.")
    return count


def _chance(mentions: Sequence[Mention], names: KnowledgeBase) -> float:
    """The mean share of names that are right for a mention."""
    counts = Counter(concept for joined in names.values() for concept in joined.split("|"))
    right = (min(len(names), sum(counts[concept] for concept in mention.concepts)) for mention in mentions)
    return sum(right) / len(names) / len(mentions)


def _encoded(encoder: TextEncoder, texts: Sequence[str], pooling: Pooling) -> Tensor:
    vectors_ND = encoder.encode(texts, pooling)
    if broken := int((~vectors_ND.isfinite().all(1)).sum()):
        problem = f"the vectors of {broken} of {len(texts)} mentions or names are not numbers"
        raise DataError(problem, "The training of the encoder has diverged, or its weights are damaged.")
    return vectors_ND


def read_mentions(location: Location) -> list[Mention]:
    """The mentions of a file, in its order; XL-BEL's `de_1k_test_query.txt`."""
    mentions = [Mention(text, frozenset(concepts)) for concepts, text in read_names(location)]
    if not mentions:
        raise DataError(f"{location}, line 1: there are no mentions", LINE)
    return mentions


def read_knowledge_base(locations: Sequence[Location]) -> KnowledgeBase:
    """The names in some files, in their order; a name that stands there again adds its concepts."""
    names: KnowledgeBase = {}
    for location in locations:
        for concepts, name in read_names(location):
            before = names[name].split("|") if name in names else []
            names[name] = "|".join(dict.fromkeys([*before, *concepts]))
    if not names:
        where = f"{locations[0]}, line 1" if locations else "the knowledge base"
        raise DataError(f"{where}: there are no names", LINE)
    return names
