"""Which word of a sentence translates which word of the other, learned from parallel sentences alone.

A word f at position j of a sentence of n words is made by a word e of the other sentence, of m words, or by none:

    p(f, a = i | e, m, n) = (1 − p₀) · exp(λ h(i, j)) / Z(j) · t(f | e_i),   h(i, j) = −|i/m − j/n|
    p(f, a = none | n)    = p₀ · t(f | none),                                Z(j) = Σ_i exp(λ h(i, j))

t is the table of translations of Model 1 (Brown et al., 1993), learned by EM; the prior that favours the diagonal is
that of Dyer et al. (2013). With a symmetric Dirichlet prior α on the translations of each word, as fast_align has it
(Riley and Gildea, 2012), the M-step turns expected counts c into

    t(f | e) = exp(ψ(c(f, e) + α) − ψ(Σ_f' (c(f', e) + α))),   f' all words seen beside e

which keeps a rare word from explaining all that stands beside it. On gold alignments of three languages with English
recall is 5 to 9 points higher than with α = 0, precision 2 to 4 points lower, the alignment error rate 4 to 7 lower.

Both directions are learned, each for itself. A link that both choose is kept, so links are one-to-one, as word-L2
needs them (Cao et al., 2020). Unlike Dyer et al., who learn λ, we leave it as it is.

Shapes: S sentence pairs, C cells (a source and a target position of one sentence pair), I and J positions of all
source and target sentences in a row, T either of them, P pairs of words that meet in a cell, W words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from babelray.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from babelray.storage import Place

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Ids = NDArray[np.int32]

Links = list[tuple[int, int]]
"""Positions of linked words in source and target, from 0."""
Row = tuple[str, str, Links]
"""A source sentence, a target sentence, and their links."""

TENSION = 4.0
"""λ: how strongly the diagonal is favoured."""
UNLINKED = 0.08
"""p₀: how often a word has no counterpart."""
SPARSITY = 0.01
"""α: below 1 prefers few translations for each word."""
MAX_WORDS = 200
"""Sentences with more words get no links: their cells grow with the square of their length."""
CELLS = 2**18
"""Cells worked on at once: what is not kept of them is in memory for no more than these."""


def align_words(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], iterations: int = 5) -> list[Links]:
    """The one-to-one links of every sentence pair, sorted; the same for every run.

    Upper and lower case count as one. Sentence pairs with an empty side, or one of more than `MAX_WORDS` words, get no
    links and teach nothing. Of equally good links the one with the lowest positions is taken.

    >>> align_words([["das", "Haus"], ["das", "Buch"]] * 9, [["the", "house"], ["the", "book"]] * 9)[1]
    [(0, 0), (1, 1)]
    """
    if len(sources) != len(targets):
        raise DataError(f"{len(sources)} source sentences cannot be aligned with {len(targets)} target sentences")
    sizes = zip(map(len, sources), map(len, targets), strict=True)
    kept = [s for s, (m, n) in enumerate(sizes) if 0 < m <= MAX_WORDS and 0 < n <= MAX_WORDS]
    links: list[Links] = [[] for _ in sources]
    if not kept:
        return links
    text = _Text([sources[s] for s in kept], [targets[s] for s in kept])
    forward, backward = _learn(text, iterations)
    for chunk in text.chunks:
        to_target, to_source = chunk.views()
        agreed = np.intersect1d(forward.best(to_target), backward.best(to_source), assume_unique=True)
        for s, i, j in chunk.positions(agreed):
            links[kept[s]].append((i, j))
    return links


def _learn(text: _Text, iterations: int) -> tuple[_Translations, _Translations]:
    """EM, from translations that are all alike, in both directions."""
    forward = _Translations(text.source_P, text.target_words)
    backward = _Translations(text.target_P, text.source_words)
    for _ in range(iterations):
        for chunk in text.chunks:
            to_target, to_source = chunk.views()
            forward.expect(to_target)
            backward.expect(to_source)
        forward.maximize()
        backward.maximize()
    return forward, backward


@dataclass
class _View:
    """What one direction sees of a chunk: its cells, and the words that it has to explain."""

    pair_C: Ids
    closeness_C: Floats
    made_C: Ints
    """Where the cell's word stands among those to explain."""
    made_T: Ids
    """The words to explain."""


class _Translations:
    """t(made | given) of one direction, for pairs of words that meet, and t(made | none)."""

    def __init__(self, given_P: Ids, made_words: int) -> None:
        self.given_P = given_P
        self.table_P = np.ones(len(given_P))
        self.none_W = np.ones(made_words)
        self.counts_P = np.zeros(len(given_P))
        self.none_counts_W = np.zeros(made_words)

    def posterior(self, view: _View) -> tuple[Floats, Floats]:
        """For every word to explain, how probably each of its cells made it, and how probably none did."""
        near_T = np.bincount(view.made_C, view.closeness_C)
        prior_C = view.closeness_C * ((1 - UNLINKED) / near_T)[view.made_C]
        joint_C = prior_C * self.table_P[view.pair_C]
        none_T = UNLINKED * self.none_W[view.made_T]
        total_T = none_T + np.bincount(view.made_C, joint_C)
        return joint_C / total_T[view.made_C], none_T / total_T

    def expect(self, view: _View) -> None:
        """The E-step: count posteriors."""
        posterior_C, none_T = self.posterior(view)
        np.add.at(self.counts_P, view.pair_C, posterior_C)
        np.add.at(self.none_counts_W, view.made_T, none_T)

    def maximize(self) -> None:
        """The M-step: counts into probabilities. Counting then starts anew."""
        from scipy.special import digamma

        self.counts_P += SPARSITY
        self.none_counts_W += SPARSITY
        total_W = np.bincount(self.given_P, self.counts_P)
        self.table_P = np.exp(digamma(self.counts_P) - digamma(total_W)[self.given_P])
        self.none_W = np.exp(digamma(self.none_counts_W) - digamma(self.none_counts_W.sum()))
        self.counts_P[:] = 0
        self.none_counts_W[:] = 0

    def best(self, view: _View) -> Ints:
        """The most probable cell of every word to explain, the first of equals; no cell if none is as probable."""
        posterior_C, none_T = self.posterior(view)
        top_T = np.zeros(len(none_T))
        np.maximum.at(top_T, view.made_C, posterior_C)
        top_T[top_T <= none_T] = np.inf
        reached = np.flatnonzero(posterior_C == top_T[view.made_C])
        _, first = np.unique(view.made_C[reached], return_index=True)
        return reached[first]


class _Text:
    """Sentence pairs as numbers, in chunks of about `CELLS` cells."""

    def __init__(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> None:
        source_I, self.source_words = _numbered(sources)
        target_J, self.target_words = _numbered(targets)
        m_S = np.fromiter(map(len, sources), np.int64)
        n_S = np.fromiter(map(len, targets), np.int64)
        source_start_S, target_start_S = _starts(m_S), _starts(n_S)
        self.chunks: list[_Chunk] = []
        keys: list[Ints] = []
        for start, stop in _spans(np.cumsum(m_S * n_S)):
            m_here, n_here = m_S[start:stop], n_S[start:stop]
            sources_here = source_I[source_start_S[start] :][: m_here.sum()]
            targets_here = target_J[target_start_S[start] :][: n_here.sum()]
            chunk = _Chunk(start, m_here, n_here, sources_here, targets_here)
            source_C, target_C = chunk.cells()
            key_C = sources_here[source_C].astype(np.int64) * self.target_words + targets_here[target_C]
            here, inverse_C = np.unique(key_C, return_inverse=True)
            chunk.pair_C = inverse_C.astype(np.int32)
            keys.append(here)
            self.chunks.append(chunk)
        key_P = np.unique(np.concatenate(keys))
        for chunk, here in zip(self.chunks, keys, strict=True):
            chunk.pair_C = np.searchsorted(key_P, here).astype(np.int32)[chunk.pair_C]
        self.source_P: Ids = (key_P // self.target_words).astype(np.int32)
        self.target_P: Ids = (key_P % self.target_words).astype(np.int32)


def _numbered(sentences: Sequence[Sequence[str]]) -> tuple[Ids, int]:
    """The words of all sentences in a row, as numbers, and how many different ones there are."""
    number: dict[str, int] = {}
    words = (word.lower() for sentence in sentences for word in sentence)
    return np.fromiter((number.setdefault(word, len(number)) for word in words), np.int32), len(number)


def _spans(ends_S: Ints) -> Iterator[tuple[int, int]]:
    """Cut sentences into runs of about `CELLS` cells."""
    cuts = np.flatnonzero(np.diff(ends_S // CELLS)) + 1
    bounds = [0, *cuts.tolist(), len(ends_S)]
    return pairwise(bounds)


class _Chunk:
    """Some sentence pairs in a row. Of a cell only its pair of words is kept; the rest is soon computed again."""

    pair_C: Ids

    def __init__(self, first: int, m_S: Ints, n_S: Ints, source_I: Ids, target_J: Ids) -> None:
        self.first, self.m_S, self.n_S, self.source_I, self.target_J = first, m_S, n_S, source_I, target_J

    def cells(self) -> tuple[Ints, Ints]:
        """The source and the target word of every cell, in this order of sentence, source and target position."""
        width_I = np.repeat(self.n_S, self.m_S)
        source_C = np.repeat(np.arange(len(width_I)), width_I)
        target_start_I = np.repeat(_starts(self.n_S), self.m_S)
        target_C = np.arange(len(source_C)) + np.repeat(target_start_I - _starts(width_I), width_I)
        return source_C, target_C

    def views(self) -> tuple[_View, _View]:
        """For the direction that makes target words, and for the one that makes source words."""
        source_C, target_C = self.cells()
        share_I = (_positions(self.m_S) + 1) / np.repeat(self.m_S, self.m_S)
        share_J = (_positions(self.n_S) + 1) / np.repeat(self.n_S, self.n_S)
        closeness_C = np.exp(-TENSION * np.abs(share_I[source_C] - share_J[target_C]))
        return (
            _View(self.pair_C, closeness_C, target_C, self.target_J),
            _View(self.pair_C, closeness_C, source_C, self.source_I),
        )

    def positions(self, chosen: Ints) -> Iterator[tuple[int, int, int]]:
        """Sentence, source position and target position of some cells."""
        source, target = (word_C[chosen] for word_C in self.cells())
        sentence_I = self.first + np.repeat(np.arange(len(self.m_S)), self.m_S)
        found = sentence_I[source], _positions(self.m_S)[source], _positions(self.n_S)[target]
        return zip(*(column.tolist() for column in found), strict=True)


def _starts(length_S: Ints) -> Ints:
    """Where each of several runs begins when they are put in a row.

    >>> _starts(np.array([2, 3])).tolist()
    [0, 2]
    """
    return np.cumsum(length_S) - length_S


def _positions(length_S: Ints) -> Ints:
    """0, 1, … for every sentence.

    >>> _positions(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(length_S.sum()) - np.repeat(_starts(length_S), length_S)


def links_file(path: str, code: str, hub: str) -> Place:
    """The file of a language, from a path such as `{lang}-{hub}.tsv`."""
    from babelray.storage import Place

    return Place.parse(path.replace("{lang}", code).replace("{hub}", hub))


def write_links(place: Place, rows: Iterable[Row]) -> None:
    """Write `source<TAB>target<TAB>links`, links as `0-0 1-2`, as other aligners do.

    A tab or line break inside a sentence becomes a space: it would end the column, and separates words just as well.
    """
    place.write_text(
        "".join(
            f"{_in_column(source)}\t{_in_column(target)}\t{' '.join(f'{i}-{j}' for i, j in links)}\n"
            for source, target, links in rows
        )
    )


def _in_column(sentence: str) -> str:
    return re.sub("[\t\r\n]", " ", sentence)


def read_links(place: Place) -> list[Row]:
    """The rows of a file of links, in its order."""
    lines = place.read_text().split("\n")
    if not lines[-1]:
        lines.pop()
    return [_row(f"{place}, line {number}", line) for number, line in enumerate(lines, start=1)]


def _row(where: str, line: str) -> Row:
    cells = line.split("\t")
    if len(cells) != 3:
        raise DataError(
            f"{where}: {len(cells)} columns instead of 3",
            "A line is `source<TAB>target<TAB>links`; the links may be empty, the tabs may not be missing.",
        )
    links: Links = []
    for link in cells[2].split():
        found = re.fullmatch("([0-9]+)-([0-9]+)", link)
        if not found:
            raise DataError(
                f"{where}: {link!r} is not a link",
                "Links are pairs of positions from 0, separated by spaces: `0-0 1-2`.",
            )
        links.append((int(found[1]), int(found[2])))
    return cells[0], cells[1], links
