"""Word alignment: which words of a sentence translate which words of the other, read off an encoder's vectors.

SimAlign (Jalili Sabet et al., 2020, section 2.2) needs no training. With vectors x_i and y_j of both sentences' words,

    S_ij = (1 + cos(x_i, y_j)) / 2

    argmax    A_ij = 1 if j = argmax_l S_il and i = argmax_l S_lj: both directions choose each other
    itermax   A = A + argmax(S ⊙ M), n times from A = 0 (Algorithm 1), where M_ij is 1 if neither i nor j has a link,
              α if one of them has, 0 if both have; the published defaults are n = 2, α = 0.9
    match     the A that maximises Σ_ij A_ij S_ij, where no word has more than one link

`argmax` is the most precise, `match` links every word of the shorter sentence, `itermax` lies between and may link a
word twice. What is linked is words, whose vector is the mean of their subwords', or subwords: two words are then
linked if any of their subwords are, which the paper finds better for rare words, and is the package's default.

Alignments are scored against links that annotators were sure of (S) or found possible (P, which holds S too) by the
alignment error rate of Och and Ney (2003, section 5):

    precision = |A ∩ P| / |A|    recall = |A ∩ S| / |S|    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

Where we differ from the package simalign (0.4):
- Its itermax departs from the paper: it stops at the first round if a sentence has at most two words (or subwords),
  and as soon as all of one sentence have a link, although words of the other may still have none. We follow the paper;
  `partial(itermax, as_package=True)` as the method gives what the package gives.
- It encodes one pair at a time; we encode many, in batches of like length, and no layer above the one that is read.
- It cuts every word into subwords once more by itself to find out which belong to it. We give the text as a whole and
  go by characters. That is the same for SentencePiece and WordPiece, and right also for byte-level BPE, where a word
  alone is cut otherwise than one after a space.
- A sentence too long for the encoder it cuts off without saying so. At the level of words it fails on it, as on a word
  that has no subword (a Japanese space). We count the words that are not read (`unread`).
- It keeps similarities in single precision, where the vectors of a narrow space tie; we keep them in double precision.

Shapes: B sentence pairs; S and T units, that is words or subwords, of source and target; of one side W words and T
subwords; N words of several sentences in a row; D width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS, EncoderBenchmark, Result, System
from babelray.metrics.intervals import Interval, bootstrap_interval
from babelray.metrics.word_similarity import parse_number
from babelray.storage import Location

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder
    from babelray.lexicon.statistical_alignment import Links
    from babelray.metrics.significance import Doubles

Level = Literal["words", "subwords"]
Method = Literal["argmax", "itermax", "match"]
Aligner = Callable[["Tensor"], "Tensor"]
"""Similarities (B, S, T), which are zero where a sentence is over, into links (B, S, T)."""
Tokens = Sequence[str]
_Marked = tuple[int, int, bool]
"""A link, and whether it is sure."""

PAIRS = 1024
"""Sentence pairs whose vectors are in memory at once."""
BATCH_SUBWORDS = 2048
"""Subwords of a batch to align, with their padding: few enough that similarities stay in the cache."""


@BENCHMARKS.register
class WordAlignment(EncoderBenchmark):
    """Links between the words of a sentence and of its translation, from the similarity of their vectors, against
    links that people made: F1, and the alignment error rate, of which less is better. SimAlign (Jalili Sabet et al.,
    2020), as in Zhao and Eger (2022).
    """

    title: ClassVar[str] = "Word alignment"
    main_metric: ClassVar[str] = "f1"
    columns: ClassVar[Mapping[str, str]] = {
        "pairs": ",.0f",
        "precision": "%",
        "recall": "%",
        "f1": "%",
        "aer": "%",
    }
    metric_titles: ClassVar[Mapping[str, str]] = {"aer": "error rate"}

    examples: ClassVar[Mapping[str, str]] = {
        "data": "gold/ (a folder with `deen.src-tgt`, lines `source ||| target`, and `deen.gold`, lines `0-0 1p2`)",
    }
    benchmark: Literal["word-alignment"] = "word-alignment"
    data: str
    """A folder with `NAME.src-tgt` and `NAME.gold`."""
    method: Literal["argmax", "itermax", "match"] = "itermax"
    level: Literal["words", "subwords"] = "subwords"
    one_based: bool = False
    """Whether positions in the gold files count from 1."""
    pairs: dict[str, tuple[str, str]] | None = None
    """Only these files, by NAME, and the languages of source and target: `{enfr: [en, fr]}`. All by default; languages,
    which only an encoder that maps them asks for, are then taken from names such as `enfr` or `en-fr`."""

    def _names(self) -> list[str]:
        names = Location.parse(self.data).files() if Location.parse(self.data).exists() else []
        pairs = [name.removesuffix(".gold") for name in names if name.endswith(".gold")]
        pairs = [name for name in pairs if f"{name}.src-tgt" in names]
        if missing := [name for name in self.pairs or {} if name not in pairs]:
            raise DataError(f"no gold alignments {missing[0]} in {self.data}", f"There are: {', '.join(pairs)}.")
        pairs = [name for name in pairs if self.pairs is None or name in self.pairs]
        if not pairs:
            raise DataError(
                f"no gold alignments in {self.data}",
                "Give a folder with files `NAME.src-tgt` (`source ||| target` per line) and `NAME.gold` (`0-0 1?2`).",
            )
        return pairs

    def sources(self, languages: Sequence[str] = ()) -> list[Location]:
        return [Location.parse(self.data) / f"{name}.{end}" for name in self._names() for end in ("src-tgt", "gold")]

    def read(self) -> dict[str, list[GoldPair]]:
        folder = Location.parse(self.data)
        return {
            name: read_pharaoh(folder / f"{name}.src-tgt", folder / f"{name}.gold", self.one_based)
            for name in self._names()
        }

    def run(self, encoder: TextEncoder, system: System) -> Result:
        scores, predictions, intervals, chance = {}, {}, {}, {}
        for name, gold in self.read().items():
            source, target = (self.pairs or {}).get(name) or languages_of(name)
            readers = encoder.for_language(source, target), encoder.for_language(target, source)
            pairs = [(pair.source, pair.target) for pair in gold]
            alignments = align_pairs(readers[0], pairs, self.method, self.level, readers[1])
            scores[name] = {**alignment_scores(alignments.links, gold), "unread": alignments.unread}
            predictions[name] = [" ".join(f"{i}-{j}" for i, j in links) for links in alignments.links]
            intervals[name] = f1_interval(alignments.links, gold)
            chance[name] = chance_f1(gold)
        return Result(scores, predictions, chance=chance, intervals=intervals)


def languages_of(name: str) -> tuple[str, str]:
    """The languages that the name of a file stands for; the name itself, twice, if it cannot be cut in two.

    >>> languages_of("enfr"), languages_of("deu-eng"), languages_of("2017")
    (('en', 'fr'), ('deu', 'eng'), ('2017', '2017'))
    """
    match = re.fullmatch("([a-z]{2,3})[-_]?([a-z]{2,3})", name)
    return (match[1], match[2]) if match else (name, name)


class GoldPair(NamedTuple):
    """A sentence and its translation as annotators saw them, and their links, by positions from 0."""

    source: list[str]
    target: list[str]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]
    """Sure ones, and others."""


class Subwords(NamedTuple):
    """A sentence as an encoder reads it: vectors of its subwords, and where they and the words begin and end."""

    vectors_TD: Tensor
    spans_T2: Tensor
    words_W2: Tensor


class Alignments(NamedTuple):
    """The links of each sentence pair, sorted, by positions from 0; and how many words of all had no subword."""

    links: list[Links]
    unread: int


def word_alignment(
    encoder: TextEncoder,
    gold: Sequence[GoldPair],
    method: Method | Aligner = "itermax",
    level: Level = "subwords",
) -> dict[str, float]:
    """Align gold sentence pairs and score the links: see `alignment_scores`; `unread` as in `align_pairs`."""
    alignments = align_pairs(encoder, [(pair.source, pair.target) for pair in gold], method, level)
    return {**alignment_scores(alignments.links, gold), "unread": alignments.unread}


def align_pairs(
    encoder: TextEncoder,
    pairs: Sequence[tuple[Tokens, Tokens]],
    method: Method | Aligner = "itermax",
    level: Level = "subwords",
    reader: TextEncoder | None = None,
) -> Alignments:
    """The links of tokenised sentence pairs; what the encoder reads is the tokens, joined by spaces.

    `reader` reads the targets, if it is not the same encoder.

    A word that lies beyond the encoder's longest input, or that its tokenizer has no subword for, has no links and is
    counted as unread.
    """
    links: list[Links] = []
    unread = 0
    for start in range(0, len(pairs), PAIRS):
        some = pairs[start : start + PAIRS]
        sources = read_subwords(encoder, [source for source, _ in some])
        targets = read_subwords(reader or encoder, [target for _, target in some])
        alignments = align_subwords(list(zip(sources, targets, strict=True)), method, level)
        links += alignments.links
        unread += alignments.unread
    return Alignments(links, unread)


def read_subwords(encoder: TextEncoder, sentences: Sequence[Tokens]) -> list[Subwords]:
    """Tokenised sentences, joined by spaces, as the encoder reads them.

    A space belongs to the word that it stands before, and so does a subword that is nothing but this space, as it would
    if the tokenizer were given the words one by one.
    """
    if not sentences:
        return []
    read = encoder.subwords([*map(" ".join, sentences)])
    return [
        Subwords(vectors_TD, spans_T2, words_W2)
        for (spans_T2, vectors_TD), words_W2 in zip(read, _word_spans(sentences), strict=True)
    ]


def _word_spans(sentences: Sequence[Tokens]) -> Sequence[Tensor]:
    """Start and end (W, 2) of the words of each sentence, with the space before each; also one before the first.

    >>> [spans.tolist() for spans in _word_spans([["Hi", "you"], [], ["."]])]
    [[[-1, 2], [2, 6]], [], [[-1, 1]]]
    """
    import numpy as np
    import torch

    counts = [len(tokens) for tokens in sentences]
    lengths_N = np.array([len(token) + 1 for tokens in sentences for token in tokens], dtype=np.int64)
    ends_N = np.cumsum(lengths_N)
    before = np.append(0, ends_N)[np.cumsum(counts) - counts]
    ends_N -= np.repeat(before, counts) + 1
    return torch.from_numpy(np.stack([ends_N - lengths_N, ends_N], 1)).split(counts)


def align_subwords(
    pairs: Sequence[tuple[Subwords, Subwords]], method: Method | Aligner = "itermax", level: Level = "subwords"
) -> Alignments:
    """The links of sentence pairs, those of like length worked on together.

    P_wt is 1 if subword t is part of word w, that is, shares a character with it. The vectors of words are
    P x / |P|, with |P| the subwords of each; links A of subwords become those of words by [P_x A P_yᵀ > 0].
    """
    from babelray.encoder.pool import token_budget_batches

    align = METHODS[method] if isinstance(method, str) else method
    links: list[Links] = [[] for _ in pairs]
    unread = 0
    longest = [max(len(x.vectors_TD), len(y.vectors_TD)) for x, y in pairs]
    for rows in token_budget_batches(longest, BATCH_SUBWORDS):
        x_BTD, x_parts_BWT = _padded([pairs[row][0] for row in rows])
        y_BTD, y_parts_BWT = _padded([pairs[row][1] for row in rows])
        read = sum(int(parts_BWT.any(2).sum()) for parts_BWT in (x_parts_BWT, y_parts_BWT))
        unread += sum(len(side.words_W2) for row in rows for side in pairs[row]) - read
        if not x_parts_BWT.any() or not y_parts_BWT.any():
            continue
        if level == "words":
            links_BST = align(similarities(*_word_vectors(x_BTD, x_parts_BWT), *_word_vectors(y_BTD, y_parts_BWT)))
        else:
            links_BST = align(similarities(x_BTD, x_parts_BWT.any(1), y_BTD, y_parts_BWT.any(1)))
            links_BST = x_parts_BWT.float() @ links_BST.float() @ y_parts_BWT.float().mT > 0
        for i, source, target in links_BST.nonzero().tolist():
            links[rows[i]].append((source, target))
    return Alignments(links, unread)


def _padded(sentences: Sequence[Subwords]) -> tuple[Tensor, Tensor]:
    """Vectors (B, T, D) of the subwords of several sentences, and which are parts of which words (B, W, T).

    Where a sentence is over, spans are empty: they share no character with any other.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    vectors_BTD = pad_sequence([sentence.vectors_TD for sentence in sentences], batch_first=True)
    spans_BT12 = pad_sequence([sentence.spans_T2 for sentence in sentences], batch_first=True).unsqueeze(1)
    words_BW12 = pad_sequence([sentence.words_W2 for sentence in sentences], batch_first=True).unsqueeze(2)
    starts_BWT = torch.maximum(spans_BT12[..., 0], words_BW12[..., 0])
    ends_BWT = torch.minimum(spans_BT12[..., 1], words_BW12[..., 1])
    return vectors_BTD, starts_BWT < ends_BWT


def _word_vectors(vectors_BTD: Tensor, parts_BWT: Tensor) -> tuple[Tensor, Tensor]:
    """Means (B, W, D) over the subwords of each word, and which words have any (B, W)."""
    counts_BW1 = parts_BWT.sum(2, keepdim=True)
    return parts_BWT.to(vectors_BTD) @ vectors_BTD / counts_BW1.clamp(min=1), counts_BW1[..., 0] > 0


def similarities(x_BSD: Tensor, x_mask_BS: Tensor, y_BTD: Tensor, y_mask_BT: Tensor) -> Tensor:
    """S (B, S, T) in double precision; zero where either mask is not set."""
    from torch.nn import functional

    cosine_BST = functional.normalize(x_BSD.double(), dim=2) @ functional.normalize(y_BTD.double(), dim=2).mT
    return ((1 + cosine_BST) / 2).clamp(min=0) * x_mask_BS.unsqueeze(2) * y_mask_BT.unsqueeze(1)


def argmax(similarity_BST: Tensor) -> Tensor:
    """Links (B, S, T) that both directions choose; of equals the first is chosen, and zero never, as in the paper.

    >>> import torch
    >>> argmax(torch.tensor([[[0.9, 0.8], [0.7, 0.2]]])).int().tolist()
    [[[1, 0], [0, 0]]]
    """
    import torch

    choice_BS1 = similarity_BST.argmax(2, keepdim=True)
    choice_B1T = similarity_BST.argmax(1, keepdim=True)
    source_S1 = torch.arange(similarity_BST.shape[1], device=similarity_BST.device).unsqueeze(1)
    chosen_BST = torch.zeros_like(similarity_BST, dtype=torch.bool).scatter(2, choice_BS1, True)
    return chosen_BST & (choice_B1T == source_S1) & (similarity_BST > 0)


def itermax(similarity_BST: Tensor, alpha: float = 0.9, rounds: int = 2, as_package: bool = False) -> Tensor:
    """Links (B, S, T) of several rounds of argmax; words that have links already are favoured less.

    `as_package` stops where the package simalign stops, and the paper does not: see the module's docstring.

    >>> import torch
    >>> itermax(torch.tensor([[[0.9, 0.8], [0.7, 0.2]]])).int().tolist()
    [[[1, 1], [1, 0]]]
    """
    import torch

    links_BST = torch.zeros_like(similarity_BST, dtype=torch.bool)
    for number in range(rounds):
        linked_BS1, linked_B1T = links_BST.any(2, keepdim=True), links_BST.any(1, keepdim=True)
        reduced_BST = torch.where(linked_BS1 | linked_B1T, alpha * similarity_BST, similarity_BST)
        reduced_BST = reduced_BST.masked_fill(linked_BS1 & linked_B1T, 0)
        if as_package and number:
            reduced_BST *= _goes_on(similarity_BST, links_BST)[:, None, None]
        links_BST |= argmax(reduced_BST)
    return links_BST


def _goes_on(similarity_BST: Tensor, links_BST: Tensor) -> Tensor:
    """For which pairs (B) the package has another round: more than two units, and a free one, on either side."""
    import torch

    found_B = torch.ones(len(links_BST), dtype=torch.bool, device=links_BST.device)
    for other in (1, 2):
        there, linked = (similarity_BST > 0).any(other), links_BST.any(other)
        found_B &= (there.sum(1) > 2) & (there & ~linked).any(1)
    return found_B


def match(similarity_BST: Tensor) -> Tensor:
    """Links (B, S, T) that make up a matching of the largest total similarity.

    Padding does not change it: a link to a word that is not there adds nothing.

    >>> import torch
    >>> match(torch.tensor([[[0.9, 0.8], [0.7, 0.2]]])).int().tolist()
    [[[0, 1], [1, 0]]]
    """
    import numpy as np
    import torch
    from scipy.optimize import linear_sum_assignment

    links_BST = np.zeros(similarity_BST.shape, dtype=np.bool_)
    for links_ST, similarity_ST in zip(links_BST, similarity_BST.cpu().numpy(), strict=True):
        links_ST[linear_sum_assignment(similarity_ST, maximize=True)] = True
    return torch.from_numpy(links_BST).to(similarity_BST.device) & (similarity_BST > 0)


METHODS: dict[str, Aligner] = {"argmax": argmax, "itermax": itermax, "match": match}


def alignment_scores(alignments: Sequence[Iterable[tuple[int, int]]], gold: Sequence[GoldPair]) -> dict[str, float]:
    """Precision, recall, F1 and AER over all sentence pairs, and what they are made of.

    `links`, `sure`, `possible` count A, S, P; `links_sure` and `links_possible` what A shares with them. A share of
    nothing is 0, and AER 1: having nothing to show earns nothing.

    >>> pair = GoldPair(["a", "b"], ["x", "y"], frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    >>> scores = alignment_scores([[(0, 0), (1, 0)]], [pair])
    >>> scores["precision"], scores["recall"], round(scores["aer"], 3)
    (0.5, 1.0, 0.333)
    """
    if len(alignments) != len(gold):
        problem = f"{len(alignments)} alignments cannot be scored against {len(gold)} gold sentence pairs"
        raise DataError(problem, "Align the sentence pairs of the gold data, all and in their order.")
    counts = zip(*(_link_counts(*one) for one in zip(alignments, gold, strict=True)), strict=True)
    links, sure, possible, links_sure, links_possible = [sum(column) for column in counts] or [0] * 5
    precision, recall = links_possible / max(1, links), links_sure / max(1, sure)
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if links_sure else 0.0,
        "aer": 1 - (links_sure + links_possible) / max(1, links + sure),
        "pairs": len(gold),
        "links": links,
        "sure": sure,
        "possible": possible,
        "links_sure": links_sure,
        "links_possible": links_possible,
    }


def _link_counts(alignment: Iterable[tuple[int, int]], pair: GoldPair) -> tuple[int, int, int, int, int]:
    """|A|, |S|, |P|, |A ∩ S|, |A ∩ P| of a sentence pair."""
    aligned, possible = set(alignment), pair.possible | pair.sure
    return len(aligned), len(pair.sure), len(possible), len(aligned & pair.sure), len(aligned & possible)


def f1_interval(alignments: Sequence[Iterable[tuple[int, int]]], gold: Sequence[GoldPair]) -> Interval:
    """The 95 % confidence interval of F1 over other sentence pairs."""
    import numpy as np

    def f1(sums_SK: Doubles) -> Doubles:
        links, sure, _, links_sure, links_possible = sums_SK.T
        precision, recall = links_possible / np.maximum(1, links), links_sure / np.maximum(1, sure)
        return 2 * precision * recall / np.maximum(1e-12, precision + recall)

    return bootstrap_interval([_link_counts(*one) for one in zip(alignments, gold, strict=True)], f1)


def chance_f1(gold: Sequence[GoldPair]) -> float:
    """The F1 of links at random: every word of the shorter sentence gets one, to a word of the other of its own.

    Any two words are then linked with the probability 1 / max(|x|, |y|); F1 is that of the expected precision and
    recall.

    >>> sure = frozenset({(0, 0), (1, 1)})
    >>> chance_f1([GoldPair(["a", "b"], ["x", "y"], sure, sure)])
    0.5
    """
    links = links_sure = links_possible = sure = 0.0
    for pair in gold:
        longer = max(1, len(pair.source), len(pair.target))
        links += min(len(pair.source), len(pair.target))
        sure += len(pair.sure)
        links_sure += len(pair.sure) / longer
        links_possible += len(pair.possible | pair.sure) / longer
    precision, recall = links_possible / max(1, links), links_sure / max(1, sure)
    return 2 * precision * recall / (precision + recall) if links_sure else 0.0


def write_pharaoh(location: Location, alignments: Iterable[Iterable[tuple[int, int]]]) -> None:
    """Write a line of links such as `0-0 1-2` for each sentence pair, by positions from 0."""
    location.write_text("".join(" ".join(f"{i}-{j}" for i, j in links) + "\n" for links in alignments))


def read_pharaoh(sentences: Location, alignments: Location, one_based: bool = False) -> list[GoldPair]:
    """Gold data in two files of as many lines: `source ||| target`, tokens separated by spaces, and their links.

    A link is `i-j` if it is sure, `i?j` or `ipj` if it is possible. Positions count from 0, or from 1 if `one_based`.
    """
    texts, rows = list(_lines(sentences)), list(_lines(alignments))
    if len(texts) != len(rows):
        problem = f"{sentences} has {len(texts)} lines, but {alignments} {len(rows)}"
        raise DataError(problem, "Line n of the one must hold the links of line n of the other: get both files again.")
    gold = []
    for (location, text), (where, row) in zip(texts, rows, strict=True):
        sides = [_tokens(side) for side in text.split("|||")]
        if len(sides) != 2 or not all(sides):
            raise DataError(f"{location}: not a sentence and its translation", "A line is `source ||| target`.")
        marked = [_pharaoh_link(where, link, one_based) for link in row.split()]
        for i, j, _ in marked:
            _check_positions(where, i, j, sides, first=int(one_based))
        gold.append(_gold_pair(sides, marked))
    return gold


def read_naacl(source: Location, target: Location, alignments: Location) -> list[GoldPair]:
    """Gold data in the three files of the NAACL shared task (Mihalcea and Pedersen, 2003), in the source file's order.

    Sentences are `<s snum=1> tokens </s>`. Each link is a line `sentence source target`, by positions from 1, which may
    go on with S (sure, also if nothing is said) or P (possible) and the annotators' confidence, which is not used.
    Links to position 0 say that a word has no counterpart; they are left out, as in the task's scores without them.
    """
    sources, targets = _naacl_sentences(source), _naacl_sentences(target)
    for here, there, other in ((sources, targets, target), (targets, sources, source)):
        for number, (where, _) in here.items():
            if number not in there:
                raise DataError(f"{where}: sentence {number} is not in {other}", "Give both files the same sentences.")
    marked: dict[int, list[_Marked]] = {number: [] for number in sources}
    for where, line in _lines(alignments):
        if not line.strip():
            continue
        number, i, j, is_sure = _naacl_link(where, line)
        if number not in marked:
            raise DataError(f"{where}: sentence {number} is not in {source}", "Check that the files belong together.")
        if i >= 0 and j >= 0:
            _check_positions(where, i, j, [sources[number][1], targets[number][1]], first=1)
            marked[number].append((i, j, is_sure))
    return [_gold_pair([sources[number][1], targets[number][1]], links) for number, links in marked.items()]


def _lines(location: Location) -> Iterator[tuple[str, str]]:
    """Where each line stands, to be named in errors, and the line."""
    lines = location.read_text().removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    return ((f"{location}, line {number}", line.rstrip("\r")) for number, line in enumerate(lines, start=1))


def _tokens(text: str) -> list[str]:
    """What spaces and tabs separate; other white space is part of a token, as annotators' tools have it."""
    return re.findall(r"[^ \t]+", text)


def _pharaoh_link(where: str, link: str, one_based: bool) -> _Marked:
    match = re.fullmatch("([0-9]+)([-?p])([0-9]+)", link)
    if not match:
        problem = f"{where}: {link!r} is not a link"
        raise DataError(problem, "Links are `3-4`, or `3?4` or `3p4` if they are only possible, separated by spaces.")
    return int(match[1]) - one_based, int(match[3]) - one_based, match[2] == "-"


def _check_positions(where: str, i: int, j: int, sides: Sequence[list[str]], first: int) -> None:
    for name, position, tokens in zip(("source", "target"), (i, j), sides, strict=True):
        if not 0 <= position < len(tokens):
            problem = f"{where}: there is no token {position + first} in the {name} sentence"
            setting = "leave out `one_based`" if first else "set `one_based: true`"
            remedy = (
                f"Its {len(tokens)} tokens are counted from {first}; if the file counts from {1 - first}, {setting}."
            )
            raise DataError(problem, remedy)


def _gold_pair(sides: Sequence[list[str]], marked: Sequence[_Marked]) -> GoldPair:
    sure = frozenset((i, j) for i, j, is_sure in marked if is_sure)
    return GoldPair(sides[0], sides[1], sure, frozenset((i, j) for i, j, _ in marked))


def _naacl_sentences(location: Location) -> dict[int, tuple[str, list[str]]]:
    """Where each sentence stands, and its tokens, by its number."""
    sentences: dict[int, tuple[str, list[str]]] = {}
    for where, line in _lines(location):
        if not line.strip():
            continue
        match = re.fullmatch(r"""\s*<s\s+snum=["']?([0-9]+)["']?\s*>(.*)</s>\s*""", line)
        if not match:
            raise DataError(f"{where}: not a numbered sentence", "A line is `<s snum=1> tokens </s>`.")
        number, tokens = int(match[1]), _tokens(match[2])
        if number in sentences:
            raise DataError(f"{where}: sentence {number} is there already", f"See {sentences[number][0]}.")
        sentences[number] = where, tokens
    return sentences


def _naacl_link(where: str, line: str) -> tuple[int, int, int, bool]:
    """Sentence, source and target position from 0 (−1: no counterpart), whether it is sure."""
    cells = line.split()
    numbers, rest = cells[:3], cells[3:]
    mark = rest.pop(0).upper() if rest and rest[0].upper() in ("S", "P") else "S"
    numbers_right = len(numbers) == 3 and all(re.fullmatch("[0-9]+", cell) for cell in numbers)
    if not numbers_right or len(rest) > 1 or any(math.isnan(parse_number(cell)) for cell in rest):
        problem = f"{where}: {line.strip()!r} is not a link"
        raise DataError(problem, "A line is `sentence source target`, then S or P and a confidence if there are any.")
    sentence, i, j = map(int, numbers)
    return sentence, i - 1, j - 1, mark == "S"
