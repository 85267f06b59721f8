"""Tags of words, learned in one language and given in all: parts of speech, names.

Layouts
    de_gsd-ud-test.conllu   Universal Dependencies (Nivre et al., 2020): UPOS, one word per line in ten columns. Words
                            that are written as one (2-3) and empty nodes (2.1) are skipped, their parts are read
    test-de.tsv, de/test    PAN-X (Pan et al., 2017; Rahimi et al., 2019) and CoNLL: one word per line, first the word,
                            last its tag, a blank line between sentences; every word may have the prefix `de:`
    de.test.tsv             a table without a header: one sentence per line, its words and its tags in the last two
                            columns, separated by spaces; with more columns, the sentence as written stands before them

A word's tag is that of its first subword (Devlin et al., 2019, section 5.3). Where it stands is found by characters, in
the words joined by spaces, as XTREME reads them (Hu et al., 2020), so that every word has subwords of its own. With
`as_written` it is the sentence as written, if that is known and has all words in it: what an encoder has seen of
languages without spaces, but there a subword may cover several words. It then has the tag of the first, and answers for
all of them. Words without a subword, since the sentence was cut there or the tokenizer knows no letter of them, have
the tag `UNREAD`: they are wrong, and counted.

Names are spans of words (Tjong Kim Sang and De Meulder, 2003): one that is found counts if it begins, ends and is of a
type as in the gold tags.

    P = |found ∩ gold| / |found|        R = |found ∩ gold| / |gold|        F1 = 2 P R / (P + R)

over all sentences together. Of words that each have one tag, F1 over all of them is their accuracy.

Shapes: W words, T subwords, C tags.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS
from babelray.evaluation.classification import accuracy, macro_f1
from babelray.evaluation.transfer import Reading, TransferBenchmark
from babelray.metrics.intervals import Interval, bootstrap_interval

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.encoder.load import HeadKind
    from babelray.metrics.significance import Doubles
    from babelray.objectives.labelled import Example, Head, Inputs
    from babelray.storage import Location

Layout = Literal["conllu", "lines", "table"]
Span = tuple[str, int, int]
"""Type, first word and last word."""
UNREAD = "∅"
"""Stands for the tag of a word that has no subword."""
OUTSIDE = "O"
_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*:")
_SPAN_TAG = re.compile(r"O|[BIES]-.+")


@BENCHMARKS.register
class Tagging(TransferBenchmark):
    """A tagger on top of the encoder is trained in one language, English unless the recipe says otherwise, and tested
    in all: parts of speech, or names. Mean over seeds of the training. Hämmerl et al. (2022) do so with UD-POS and
    PAN-X.
    """

    title: ClassVar[str] = "Tagging of words"
    main_metric: ClassVar[str] = "f1"
    columns: ClassVar[Mapping[str, str]] = {
        "examples": ",.0f",
        "f1": "%",
        "f1_spread": "%",
        "precision": "%",
        "recall": "%",
        "accuracy": "%",
        "macro_f1": "%",
        "unread": ",.0f",
    }
    head: ClassVar[HeadKind] = "tagging"

    examples: ClassVar[Mapping[str, str]] = {
        "data": "{lang}/test.conllu (Universal Dependencies: one word per line in ten columns)",
        "train": "{lang}/train.conllu (Universal Dependencies: one word per line in ten columns)",
    }
    benchmark: Literal["tagging"] = "tagging"
    layout: Literal["conllu", "lines", "table"] | None = None
    """The layout of the files; by default it is recognised by their names and content."""
    as_written: bool = False
    """Whether words are read in the sentence as it is written, where that is known; or joined by spaces, as in XTREME,
    so that no two share a subword."""

    def _read(self, location: Location, code: str, training: bool) -> list[Any]:
        return read_tagged(location, self.layout)

    def _labels_of(self, item: Any) -> Sequence[str]:
        return item.tags

    def _apply_head(self) -> Head:
        from babelray.objectives.labelled import word_head

        return word_head

    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        return word_examples(items, reading.labels, reading.tokenizer, reading.longest, self.as_written)

    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]:
        tagged = tag(
            model, items, reading.labels, reading.tokenizer, reading.longest, self.batch_tokens, self.as_written
        )
        return [" ".join(tags) for tags in tagged]

    def _chance(self, items: list[Any]) -> float:
        tags = Counter(name for item in items for name in item.tags)
        return 0.0 if are_spans(list(tags)) else tags.most_common(1)[0][1] / tags.total()

    def _interval(self, items: list[Any], answers: list[list[Any]]) -> Interval:
        gold = [item.tags for item in items]
        named = are_spans([name for tags in gold for name in tags])
        counts = [_sentence_counts(gold, [tags.split(" ") for tags in own], named) for own in answers]
        rows = [[count for own in by_seed for count in own] for by_seed in zip(*counts, strict=True)]
        return bootstrap_interval(rows, _mean_f1)

    def _score_answers(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        gold, predicted = [item.tags for item in items], [tags.split(" ") for tags in answers]
        named = are_spans(labels)
        metrics = {
            **(span_scores if named else word_scores)(gold, predicted),
            "words": sum(map(len, gold)),
            "unread": sum(tags.count(UNREAD) for tags in predicted),
            "unseen": sum(tag not in labels for tags in gold for tag in tags),
        }
        return metrics, sentence_scores(gold, predicted, named)

    def _gold(self, item: Any) -> Any:
        return " ".join(item.tags)


class TaggedSentence(NamedTuple):
    """Words, their tags, and the sentence as it is written if that is known."""

    words: list[str]
    tags: list[str]
    written: str | None = None

    def text(self, as_written: bool = False) -> str:
        """The words joined by spaces; or the sentence as written, if all words stand there in their order.

        >>> TaggedSentence(["I", "do", "n't"], ["X"] * 3, "I don't").text(as_written=True)
        "I don't"
        >>> TaggedSentence(["zu", "dem"], ["X"] * 2, "zum").text(as_written=True)
        'zu dem'
        """
        from babelray.encoder.words import token_spans

        if as_written and self.written is not None:
            try:
                token_spans(self.written, self.words)
            except ValueError:
                return " ".join(self.words)
            return self.written
        return " ".join(self.words)


def read_tagged(location: Location, layout: Layout | None = None) -> list[TaggedSentence]:
    """The sentences of a file; its layout follows from its name and what is in it, if it is not given."""
    lines = [line.rstrip("\r") for line in location.read_text().removeprefix("\ufeff").split("\n")]
    read = {"conllu": _conllu, "lines": _word_lines, "table": _table}[layout or _layout(location, lines)]
    sentences = list(read(location, lines))
    if not sentences:
        raise DataError(
            f"{location}, line 1: there are no sentences", "Give CoNLL-U, `word<TAB>tag` lines, or a table."
        )
    return sentences


def _layout(location: Location, lines: Sequence[str]) -> Layout:
    """A table has several tags in a cell."""
    if location.name.endswith(".conllu"):
        return "conllu"
    return "table" if any(" " in line.rpartition("\t")[2].strip() for line in lines if "\t" in line) else "lines"


def _conllu(location: Location, lines: Sequence[str]) -> Iterator[TaggedSentence]:
    words: list[str] = []
    tags: list[str] = []
    written = None
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip():
            if words:
                yield TaggedSentence(words, tags, written)
            words, tags, written = [], [], None
        elif line.startswith("#"):
            name, _, value = line[1:].partition("=")
            written = value.strip() if name.strip() == "text" else written
        else:
            cells = line.split("\t")
            if len(cells) != 10 or not re.fullmatch(r"[0-9]+([-.][0-9]+)?", cells[0]):
                problem = f"{location}, line {number}: not a word of CoNLL-U"
                raise DataError(problem, "A word has ten columns separated by tabs, the first of which is its number.")
            if cells[0].isdigit():
                words.append(cells[1])
                tags.append(cells[3])


def _word_lines(location: Location, lines: Sequence[str]) -> Iterator[TaggedSentence]:
    sentences: list[list[tuple[str, str]]] = [[]]
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            sentences.append([])
            continue
        cells = line.split("\t") if "\t" in line else line.split(" ")
        if len(cells) < 2 or not cells[-1].strip():
            raise DataError(f"{location}, line {number}: not a word and its tag", "A line is `word<TAB>tag`.")
        sentences[-1].append((cells[0].strip(), cells[-1].strip()))
    prefixes = {match[0] if (match := _PREFIX.match(word)) else "" for words in sentences for word, _ in words}
    prefix = prefixes.pop() if len(prefixes) == 1 else ""
    for some in filter(None, sentences):
        yield TaggedSentence([word.removeprefix(prefix) for word, _ in some], [tag for _, tag in some])


def _table(location: Location, lines: Sequence[str]) -> Iterator[TaggedSentence]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        *others, words, tags = (cell.strip() for cell in ["", *line.split("\t")])
        one, two = words.split(), tags.split()
        if len(one) != len(two) or not one:
            problem = f"{location}, line {number}: {len(one)} words but {len(two)} tags"
            raise DataError(problem, "The last two columns are the words and the tags, as many, separated by spaces.")
        yield TaggedSentence(one, two, others[-1] or None)


def first_subwords(text: str, words: Sequence[str], offsets_T2: np.ndarray) -> np.ndarray:
    """Where the first subword of each word stands (W); −1 if it has none. Special subwords must have empty spans.

    >>> import numpy as np
    >>> first_subwords("Hi you", ["Hi", "you"], np.array([[0, 0], [0, 1], [1, 2], [2, 6]])).tolist()
    [1, 3]
    """
    import numpy as np

    from babelray.encoder.words import overlaps, token_spans

    word, subword = overlaps(token_spans(text, words), offsets_T2)
    places_W = np.full(len(words), -1)
    covered, first = np.unique(word, return_index=True)
    places_W[covered] = subword[first]
    return places_W


def encode_words(
    sentences: Sequence[TaggedSentence], tokenizer: PreTrainedTokenizerBase, longest: int, as_written: bool = False
) -> list[tuple[Inputs, np.ndarray]]:
    """What the encoder reads of each sentence, and where the first subword of each word stands (W)."""
    import numpy as np

    from babelray.objectives.labelled import split_inputs

    texts = [sentence.text(as_written) for sentence in sentences]
    encoded = tokenizer(
        texts, truncation=True, max_length=longest, return_offsets_mapping=True, return_special_tokens_mask=True
    )
    encoded_words = []
    for row, inputs in enumerate(split_inputs(encoded, tokenizer)):
        real_T1 = np.array(encoded["special_tokens_mask"][row])[:, None] == 0
        offsets_T2 = np.array(encoded["offset_mapping"][row]) * real_T1
        encoded_words.append((inputs, first_subwords(texts[row], sentences[row].words, offsets_T2)))
    return encoded_words


def word_examples(
    sentences: Sequence[TaggedSentence],
    labels: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    as_written: bool = False,
) -> list[Example]:
    """To learn from: the number of its tag at the first subword of each word."""
    from babelray.objectives.labelled import NO_LABEL, Example

    numbers = {label: number for number, label in enumerate(labels)}
    examples = []
    read = encode_words(sentences, tokenizer, longest, as_written)
    for (inputs, places_W), sentence in zip(read, sentences, strict=True):
        labels_T = [NO_LABEL] * len(inputs["input_ids"])
        for location, tag in zip(places_W[::-1].tolist(), sentence.tags[::-1], strict=True):
            if location >= 0:  # of words that share a subword the first comes last, and stays
                labels_T[location] = numbers[tag]
        examples.append(Example(inputs, labels_T))
    return examples


def tag(
    model: PreTrainedModel,
    sentences: Sequence[TaggedSentence],
    labels: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    batch_tokens: int,
    as_written: bool = False,
) -> list[list[str]]:
    """The tag that the model finds most likely for each word, or `UNREAD`."""
    from babelray.objectives.labelled import predict, word_head

    read = encode_words(sentences, tokenizer, longest, as_written)
    logits = predict(model, word_head, [inputs for inputs, _ in read], tokenizer, batch_tokens)
    return [
        [labels[int(best_T[location])] if location >= 0 else UNREAD for location in places_W.tolist()]
        for best_T, (_, places_W) in zip((logits_TC.argmax(1) for logits_TC in logits), read, strict=True)
    ]


def are_spans(labels: Sequence[str]) -> bool:
    """Whether these are tags of spans, such as B-PER, and not of words.

    >>> are_spans(["O", "B-PER", "I-PER"]), are_spans(["NOUN", "VERB"])
    (True, False)
    """
    return all(_SPAN_TAG.fullmatch(label) for label in labels)


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans that tags of IOB1, IOB2 or IOBES mark, read as generously as the CoNLL shared tasks do.

    A word continues the span of the preceding word if its tag is I or E, the preceding tag is B or I, and both have the
    same type; any other word with a tag but O begins a span, also with I.

    >>> spans(["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER"])
    [('PER', 0, 1), ('LOC', 3, 3), ('LOC', 4, 4), ('PER', 5, 5)]
    """
    marked: list[Span] = []
    before, kind_before = OUTSIDE, ""
    for location, (mark, kind) in enumerate((name[:1], name[2:]) for name in tags):
        if mark in ("I", "E") and before in ("B", "I") and kind == kind_before:
            marked[-1] = (kind, marked[-1][1], location)
        elif mark not in (OUTSIDE, UNREAD):
            marked.append((kind, location, location))
        before, kind_before = mark, kind
    return marked


def word_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Accuracy over all words, which is their F1 too, and macro F1; `UNREAD` is always wrong, and no class."""
    right, answers = ([name for tags in side for name in tags] for side in (gold, predicted))
    share = accuracy(right, answers)
    return {"f1": share, "accuracy": share, "macro_f1": macro_f1(right, answers, no_class=UNREAD)}


def span_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of spans over all sentences, and the accuracy of words; a share of nothing is 0.

    >>> scores = span_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "B-LOC", "O"]])
    >>> scores["f1"], round(scores["accuracy"], 3)
    (0.5, 0.333)
    """
    sets = [[(row, *span) for row, tags in enumerate(side) for span in spans(tags)] for side in (gold, predicted)]
    both = len({*sets[0]} & {*sets[1]})
    precision, recall = both / max(1, len(sets[1])), both / max(1, len(sets[0]))
    return {
        "f1": 2 * precision * recall / (precision + recall) if both else 0.0,
        "precision": precision,
        "recall": recall,
        "accuracy": word_scores(gold, predicted)["accuracy"],
    }


def _sentence_counts(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], named: bool
) -> list[tuple[int, int]]:
    """Of each sentence twice the spans (or words) that both have, and the spans of both: their ratio is F1."""
    counts = []
    for right, answers in zip(gold, predicted, strict=True):
        if named:
            first, second = {*spans(right)}, {*spans(answers)}
            counts.append((2 * len(first & second), len(first) + len(second)))
        else:
            counts.append((2 * sum(a == b for a, b in zip(right, answers, strict=True)), 2 * len(right)))
    return counts


def _mean_f1(sums_SK: Doubles) -> Doubles:
    """The mean over seeds, of which each has two columns, as `_sentence_counts` gives them."""
    import numpy as np

    return (sums_SK[:, ::2] / np.maximum(1, sums_SK[:, 1::2])).mean(1)


def sentence_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], named: bool) -> list[float]:
    """Of each sentence the share of words that are right; with `named` the F1 of its spans, 1 if there are none."""
    if not named:
        return [accuracy(right, answers) for right, answers in zip(gold, predicted, strict=True)]
    return [
        span_scores([right], [answers])["f1"] if spans(right) or spans(answers) else 1.0
        for right, answers in zip(gold, predicted, strict=True)
    ]
