"""Contextual bilingual lexicon induction (CBLI): is the nearest neighbour of a word in context its translation there?

Zhao and Eger ("Constrained Density Matching and Modeling", sections 3 and 4.4): as in BLI there is a lexicon for each
pair of languages, but every occurrence of a word is an entry of its own. Word pairs come from parallel sentences by
word alignment. With x_i and y_i the vectors in context of the i-th pair's words,

    j_1, j_2, … = all j, by falling CSLS(x_i, y_j) or cos(x_i, y_j)
    P@k = 1/N Σ_i [i ∈ {j_1, …, j_k}]          MRR = 1/N Σ_i 1/rank of i, where 1/rank is 0 beyond the first `DEPTH`

so that the same word in another sentence is wrong: its context must be found too. `word_p1` is less strict, as in BLI:
the word must be right, in any sentence. Cao et al. (2020) measure the same by CSLS and call it contextual word
retrieval. The published figures are P@1 over 10,000 pairs of Europarl and News Commentary, at layer 8.

What the paper leaves open, and what we do:
- A word is the mean of its subwords.
- Pairs are one-to-one. Words without letters, pairs of words that are spelled alike, and pairs of words that are linked
  less than `min_count` times in the text are left out: the first two are too easy, the last are mostly wrong links.
- The text is covered evenly. A word is tested at most `per_word` times, so that frequent words do not decide alone.
- A repeated sentence pair is left out. Where sentences of the target side are the same, so are the vectors
  of their words, and either place is right.
- A word that the encoder does not read (beyond its longest input, or of no subword) is not found, and finds nothing.

Shapes: N pairs of occurrences, R of which are read, D width, n nearest candidates, of one sentence W words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS, Result, System
from babelray.evaluation.parallel import ParallelBenchmark
from babelray.metrics.bli import RANKS, rank_scores

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder
    from babelray.lexicon.statistical_alignment import Links
    from babelray.text.segment import Segmenter

Item = TypeVar("Item")

DEPTH = max(RANKS)
"""Candidates that are ranked for each occurrence."""
SENTENCES = 1024
"""Sentences whose vectors are in memory at once."""


@BENCHMARKS.register
class ContextualBli(ParallelBenchmark):
    """Share of words in a sentence whose nearest word in the other language, each in its own context, is the one that
    translates it in that very sentence. Contextual lexicon induction (CBLI), by Zhao and Eger (2022).
    """

    title: ClassVar[str] = "Word translation in context"
    main_metric: ClassVar[str] = "p1"
    columns: ClassVar[Mapping[str, str]] = {
        "occurrences": ",.0f",
        "p1": "%",
        "p5": "%",
        "mrr": ".3f",
        "word_p1": "%",
    }
    metric_titles: ClassVar[Mapping[str, str]] = {"word_p1": "the word, P@1"}

    benchmark: Literal["contextual-bli"] = "contextual-bli"
    max_sentences: int = Field(20_000, ge=1)
    """Sentence pairs of a language, evenly from all; links between words are learned from them."""
    min_count: int = Field(2, ge=1)
    """Pairs of words that are linked less often are not tested."""
    occurrences_per_word: int = Field(10, ge=1)
    """The most occurrences of a word that are tested."""
    max_occurrences: int = Field(10_000, ge=1)
    """The most occurrences that are tested in all, among as many candidates."""
    csls: int = Field(10, ge=0)
    """k of CSLS; 0: cosine."""

    def run(self, encoder: TextEncoder, system: System) -> Result:
        from babelray.text.segment import Segmenter

        induced = {}
        for code, sentences, translations in self.read():
            # by ICU always: scores must not depend on what is installed
            sources = tokenised(spread(sentences, self.max_sentences), Segmenter.for_language(code))
            targets = tokenised(spread(translations, self.max_sentences), Segmenter.for_language(self.hub))
            induced[code] = contextual_bli(
                encoder.for_language(code, self.hub),
                sources,
                targets,
                csls=self.csls,
                min_count=self.min_count,
                per_word=self.occurrences_per_word,
                most=self.max_occurrences,
                reader=encoder.for_language(self.hub, code),
            )
        return Result(
            {code: answers.metrics() for code, answers in induced.items()},
            {code: answers.predictions() for code, answers in induced.items()},
            chance={code: answers.chance for code, answers in induced.items()},
        )


class Tokenised(NamedTuple):
    """A sentence and its tokens, in order."""

    text: str
    tokens: list[str]


class Occurrence(NamedTuple):
    """A word and its translation at one place of a text: the sentence pair, and their positions in it, from 0."""

    pair: int
    source: int
    target: int


class Induced(NamedTuple):
    """The results of the occurrences, in their order."""

    ranks: list[int]
    """The rank of the translation at this place; 0 if it is not among the first `DEPTH`."""
    word_ranks: list[int]
    """The rank of the translation at any place."""
    words: list[str]
    answers: list[str]
    """The nearest word; empty if the word is not read."""
    unread: int
    """Occurrences that are not read, in either language."""
    chance: float
    """P@1 of guessing among the occurrences that are read."""

    def metrics(self) -> dict[str, float]:
        return {
            "occurrences": len(self.ranks),
            "words": len({word.lower() for word in self.words}),
            **rank_scores(self.ranks),
            "word_p1": rank_scores(self.word_ranks)["p1"],
            "unread": self.unread,
        }

    def predictions(self) -> dict[str, Any]:
        example_scores = [int(rank == 1) for rank in self.ranks]
        return {"example_scores": example_scores, "ranks": self.ranks, "words": self.words, "answers": self.answers}


def tokenised(sentences: Iterable[str], segmenter: Segmenter) -> list[Tokenised]:
    return [Tokenised(sentence, segmenter.tokens(sentence)) for sentence in sentences]


def contextual_bli(
    encoder: TextEncoder,
    sources: Sequence[Tokenised],
    targets: Sequence[Tokenised],
    links: Sequence[Links] | None = None,
    csls: int = 10,
    min_count: int = 2,
    per_word: int = 10,
    most: int = 10_000,
    reader: TextEncoder | None = None,
) -> Induced:
    """Find the translation of each source word in context among those of all; line n of one side translates line n.

    `links` between the words of each sentence pair are learned from the text if they are not given. `csls` is CSLS' k,
    cosine if 0. `min_count`, `per_word`, `most`: see `linked_occurrences`. `reader` reads the targets, if it is not the
    same encoder.
    """
    import torch

    from babelray.lexicon.statistical_alignment import align_words
    from babelray.metrics.retrieval import chance_of_groups, groups_of
    from babelray.vectors.retrieval import nearest

    source_tokens, target_tokens = ([sentence.tokens for sentence in side] for side in (sources, targets))
    if links is None:
        links = align_words(source_tokens, target_tokens)
    asked = linked_occurrences(source_tokens, target_tokens, links, min_count, per_word, most)
    if not asked:
        problem = f"among {len(sources)} sentence pairs no two different words are linked {min_count} times"
        raise DataError(problem, "Give more sentences, or a smaller `min_count`.")
    x_ND, x_read_N = occurrence_vectors(
        encoder, sources, [(occurrence.pair, occurrence.source) for occurrence in asked]
    )
    y_ND, y_read_N = occurrence_vectors(
        reader or encoder, targets, [(occurrence.pair, occurrence.target) for occurrence in asked]
    )
    words = [source_tokens[occurrence.pair][occurrence.source] for occurrence in asked]
    translations = [target_tokens[occurrence.pair][occurrence.target] for occurrence in asked]
    same_place = groups_of([f"{occurrence.target} {targets[occurrence.pair].text}" for occurrence in asked])
    same_word = groups_of([word.lower() for word in translations])

    read_R = (x_read_N & y_read_N).nonzero()[:, 0]
    ranks_N, word_ranks_N = torch.zeros(2, len(asked), dtype=torch.long)
    answers = [""] * len(asked)
    if len(read_R):
        positions_Rn = nearest(x_ND[read_R], y_ND[read_R], DEPTH, csls)[1]
        ranks_N[read_R] = first_ranks(positions_Rn, torch.tensor(same_place)[read_R])
        word_ranks_N[read_R] = first_ranks(positions_Rn, torch.tensor(same_word)[read_R])
        for row, answer in zip(read_R.tolist(), read_R[positions_Rn[:, 0]].tolist(), strict=True):
            answers[row] = translations[answer]
    chance = chance_of_groups([same_place[row] for row in read_R.tolist()]) * len(read_R) / len(asked)
    return Induced(ranks_N.tolist(), word_ranks_N.tolist(), words, answers, len(asked) - len(read_R), chance)


def linked_occurrences(
    sources: Sequence[Sequence[str]],
    targets: Sequence[Sequence[str]],
    links: Sequence[Links],
    min_count: int = 2,
    per_word: int = 10,
    most: int = 10_000,
) -> list[Occurrence]:
    """Word pairs in context, in the order of the text; upper and lower case count as one.

    Two words that are linked less than `min_count` times are left out; of the others no source word is taken more than
    `per_word` times, and no more than `most` are taken in all, evenly from the whole text.

    >>> linked_occurrences([["Ein", "Hund", "!"]] * 2, [["A", "dog", "!"]] * 2, [[(0, 0), (1, 1), (2, 2)]] * 2, 1)
    [Occurrence(pair=0, source=0, target=0), Occurrence(pair=0, source=1, target=1)]
    """
    if not len(sources) == len(targets) == len(links):
        problem = f"{len(sources)} source sentences, {len(targets)} target sentences and {len(links)} rows of links"
        raise DataError(problem, "Give as many of each.")
    by_pair: dict[tuple[str, str], list[Occurrence]] = defaultdict(list)
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for pair, (source, target, some) in enumerate(zip(sources, targets, links, strict=True)):
        if (both := (tuple(source), tuple(target))) in seen:
            continue
        seen.add(both)
        for i, j in one_to_one(some):
            if not (0 <= i < len(source) and 0 <= j < len(target)):
                sizes = f"{len(source)} and {len(target)} words"
                raise DataError(f"sentence pair {pair}: a link {i}-{j} between {sizes}", "Positions count from 0.")
            word, translation = source[i].lower(), target[j].lower()
            if word != translation and _has_letters(word) and _has_letters(translation):
                by_pair[word, translation].append(Occurrence(pair, i, j))
    by_word: dict[str, list[Occurrence]] = defaultdict(list)
    for (word, _), occurrences in by_pair.items():
        if len(occurrences) >= min_count:
            by_word[word] += occurrences
    return spread(
        sorted(occurrence for some in by_word.values() for occurrence in spread(sorted(some), per_word)), most
    )


def one_to_one(links: Links) -> Links:
    """The links of words that have no other.

    >>> one_to_one([(0, 0), (1, 1), (1, 2), (3, 4), (4, 4), (5, 5), (5, 5)])
    [(0, 0), (5, 5)]
    """
    by_source, by_target = defaultdict(set), defaultdict(set)
    for i, j in links:
        by_source[i].add(j)
        by_target[j].add(i)
    return [(i, j) for i, j in dict.fromkeys(links) if len(by_source[i]) == len(by_target[j]) == 1]


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` of the items, at even distances.

    >>> spread("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    count = min(most, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def _has_letters(word: str) -> bool:
    return any(map(str.isalpha, word))


def occurrence_vectors(
    encoder: TextEncoder, sentences: Sequence[Tokenised], wanted: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Vectors (N, D) of words, by sentence and position, and which of them are read (N); zero where they are not.

    Only sentences with wanted words are encoded, each once.
    """
    import torch

    rows_of: dict[int, list[int]] = defaultdict(list)
    for row, (sentence, _) in enumerate(wanted):
        rows_of[sentence].append(row)
    read_N = torch.zeros(len(wanted), dtype=torch.bool)
    order: list[int] = []
    vectors: list[Tensor] = []
    numbers = list(rows_of)
    for start in range(0, len(numbers), SENTENCES):
        some = numbers[start : start + SENTENCES]
        encoded = encoder.words([sentences[s].text for s in some], [sentences[s].tokens for s in some])
        for sentence, (locations, vectors_WD) in zip(some, encoded, strict=True):
            at = {location: w for w, location in enumerate(locations)}
            rows = [row for row in rows_of[sentence] if wanted[row][1] in at]
            vectors.append(vectors_WD[[at[wanted[row][1]] for row in rows]])
            order += rows
    width = vectors[0].shape[1] if vectors else 0
    vectors_ND = torch.zeros(len(wanted), width)
    if order:
        vectors_ND[order] = torch.cat(vectors)
        read_N[order] = True
    return vectors_ND, read_N


def first_ranks(positions_Nn: Tensor, labels_N: Tensor) -> Tensor:
    """The rank (N) of each row's first candidate that has the row's own label; 0 if none has.

    >>> import torch
    >>> first_ranks(torch.tensor([[0, 1], [2, 1], [1, 0]]), torch.arange(3)).tolist()
    [1, 2, 0]
    """
    import torch

    right_Nn = labels_N[positions_Nn] == labels_N.unsqueeze(1)
    return torch.where(right_Nn.any(1), right_Nn.int().argmax(1) + 1, 0)
