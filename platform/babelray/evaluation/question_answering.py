"""Answers to questions, found as spans of a text: learned in one language, asked in all.

Layouts
    xquad.de.json, tydiqa.goldp.sw.train.json    SQuAD 1.1 (Rajpurkar et al., 2016), as XQuAD, MLQA and TyDiQA-GoldP
    de.qa.tsv with de.contexts.tsv beside it     tables without a header: text number, id, question, answer, where it
                                                 starts; and text number, text

A head gives every subword t a logit s_t that the answer starts there and e_t that it ends there (Devlin et al., 2019,
section 4.2). The answer is

    argmax_{i ≤ j ≤ i + 30} s_i + e_j

over the subwords of the text. A text that is too long is read in windows, each with the question before it, that start
`stride` subwords apart; the best span of all windows is the answer. A window without the answer is taught to point at
the first special subword.

Answers are compared as MLQA does (Lewis et al., 2020): lower case, without punctuation and articles of the language;
exact match EM, and F1 of the tokens that both share, the best over all right answers. Tokens are what spaces separate,
and single characters of scripts that have no spaces.

Differences: if nothing is left of an answer, F1 is that of SQuAD 2.0, 1 if nothing is left of the other either. Which
window gives a subword most context is not asked; BERT's script lets only that one answer with it.

Shapes: T subwords, N longest answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS
from babelray.evaluation.transfer import Reading, TransferBenchmark

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.encoder.load import HeadKind
    from babelray.objectives.labelled import Example, Head, Inputs
    from babelray.storage import Location

LONGEST_ANSWER = 30
"""The most subwords of an answer."""
LONGEST_QUESTION = 64
"""Subwords of a question that are read; also at most half of what the encoder takes."""
QUESTIONS, CONTEXTS = ".qa.tsv", ".contexts.tsv"
ARTICLES = {
    "ar": "ال",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
}
"""MLQA's: what is taken out of an answer before it is compared."""
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese letters."""
_TOKEN = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")


@BENCHMARKS.register
class QuestionAnswering(TransferBenchmark):
    """The encoder learns in one language, English unless the recipe says otherwise, to find the answer to a question in
    a text, and is tested in all. F1 counts shared words, exact match whole answers. Mean over seeds of the training.
    Hämmerl et al. (2022) and Alqahtani et al. (2021) do so with XQuAD.
    """

    title: ClassVar[str] = "Question answering"
    main_metric: ClassVar[str] = "f1"
    columns: ClassVar[Mapping[str, str]] = {
        "examples": ",.0f",
        "f1": "%",
        "f1_spread": "%",
        "exact_match": "%",
    }
    head: ClassVar[HeadKind] = "question-answering"

    examples: ClassVar[Mapping[str, str]] = {
        "data": "xquad.{lang}.json (as SQuAD 1.1)",
        "train": "train-v1.1.json (SQuAD 1.1)",
    }
    benchmark: Literal["question-answering"] = "question-answering"
    max_tokens: int = Field(384, ge=16)
    """Subwords of a window of the text with its question; less if the encoder takes less."""
    stride: int = Field(128, ge=1)
    """Distance in subwords between the starts of two windows of a long text."""

    def _companions(self, location: Location) -> list[Location]:
        return [contexts_of(location)] if location.name.endswith(QUESTIONS) else []

    def _read(self, location: Location, code: str, training: bool) -> list[Any]:
        return read_questions(location)

    def _labels(self, learned: Mapping[str, list[Any]]) -> list[str]:
        return []

    def _labels_of(self, item: Any) -> Sequence[str]:
        return []

    def _apply_head(self) -> Head:
        from babelray.objectives.labelled import span_head

        return span_head

    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        return question_examples(items, reading.tokenizer, reading.longest, self.stride)

    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]:
        return answer(model, items, reading.tokenizer, reading.longest, self.batch_tokens, self.stride)

    def _score_answers(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        by_question = answer_scores(answers, self._right(items), code)
        return {name: fmean(values) for name, values in by_question.items()}, by_question["f1"]

    def _right(self, items: list[Any]) -> list[list[str]]:
        return [[answer.text for answer in item.answers] for item in items]

    def _gold(self, item: Any) -> Any:
        return [answer.text for answer in item.answers]


class Answer(NamedTuple):
    """A right answer, and where it starts in the text."""

    text: str
    start: int


class Question(NamedTuple):
    """A question on a text, with all answers that are right."""

    question: str
    context: str
    answers: list[Answer]


def read_questions(location: Location) -> list[Question]:
    """The questions of a file, in either layout."""
    questions = list(_tables(location) if location.name.endswith(QUESTIONS) else _squad(location))
    if not questions:
        raise DataError(f"{location}: there are no questions", "Give a file in the format of SQuAD 1.1.")
    return questions


def contexts_of(location: Location) -> Location:
    """The table of texts beside a table of questions."""
    return location.parent / (location.name.removesuffix(QUESTIONS) + CONTEXTS)


def _squad(location: Location) -> Iterator[Question]:
    where: Any = "data"
    try:
        for i, article in enumerate(location.read_json()["data"]):
            for j, paragraph in enumerate(article["paragraphs"]):
                for k, asked in enumerate(paragraph["qas"]):
                    where = f"data.{i}.paragraphs.{j}.qas.{k}"
                    answers = [Answer(answer["text"], int(answer["answer_start"])) for answer in asked["answers"]]
                    if not answers:
                        raise DataError(
                            f"{location}, {where}: a question without an answer",
                            "Leave out questions that have none, as SQuAD 1.1 does.",
                        )
                    yield Question(asked["question"], paragraph["context"], answers)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{location}, {where} or what follows: not as in SQuAD ({type(error).__name__}: {error})"
        remedy = "It must hold data › paragraphs › context and qas › question and answers › text and answer_start."
        raise DataError(problem, remedy) from error


def _tables(location: Location) -> Iterator[Question]:
    contexts = {number: text for _, (number, text) in _cells(contexts_of(location), 2)}
    for line, (number, _, question, answer, start) in _cells(location, 5):
        if number not in contexts:
            raise DataError(f"{location}, line {line}: no text {number!r}", f"It must be in {contexts_of(location)}.")
        if not start.isdigit():
            raise DataError(f"{location}, line {line}: {start!r} is not a position", "The last column is a number.")
        yield Question(question, contexts[number], [Answer(answer, int(start))])


def _cells(location: Location, count: int) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(location.read_text().removeprefix("\ufeff").split("\n"), start=1):
        cells = line.rstrip("\r").split("\t")
        if cells == [""]:
            continue
        if len(cells) != count:
            problem = f"{location}, line {number}: {len(cells)} columns instead of {count}"
            raise DataError(problem, "Columns are separated by tabs; see the layouts of question answering.")
        yield number, cells


@dataclass(frozen=True)
class Window:
    """A question with a part of its text: which question it is, and where its subwords stand in the text.

    `spans_T2` is empty, start and end alike, for subwords that are not of the text.
    """

    question: int
    inputs: Inputs
    spans_T2: np.ndarray

    @property
    def in_text(self) -> np.ndarray:
        """Which subwords (T) are of the text."""
        return self.spans_T2[:, 0] < self.spans_T2[:, 1]


def windows(
    questions: Sequence[Question], tokenizer: PreTrainedTokenizerBase, longest: int, stride: int = 128
) -> list[Window]:
    """All questions with their texts, in windows of at most `longest` subwords that start `stride` apart.

    Where the question leaves little room, they start closer: windows overlap by half of the room, or more.
    """
    import numpy as np

    from babelray.objectives.labelled import split_inputs

    special = tokenizer.num_special_tokens_to_add(pair=True)
    most = min(LONGEST_QUESTION, (longest - special) // 2)
    asked = tokenizer([q.question for q in questions], add_special_tokens=False, return_offsets_mapping=True)
    by_length: dict[int, list[int]] = {}
    shortened = []
    for row, offsets in enumerate(asked["offset_mapping"]):
        cut = offsets[:most]
        shortened.append(questions[row].question[: cut[-1][1]] if len(offsets) > most else questions[row].question)
        by_length.setdefault(len(cut), []).append(row)
    parts = []
    for length, rows in by_length.items():
        room = longest - special - length
        encoded = tokenizer(
            [shortened[row] for row in rows],
            [questions[row].context for row in rows],
            truncation="only_second",
            max_length=longest,
            stride=room - max(1, min(stride, room // 2)),  # a tokenizer asks for what two windows share
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        for number, inputs in enumerate(split_inputs(encoded, tokenizer)):
            of_text_T = np.array([side == 1 for side in encoded.sequence_ids(number)])
            spans_T2 = np.array(encoded["offset_mapping"][number]) * of_text_T[:, None]
            parts.append(Window(rows[encoded["overflow_to_sample_mapping"][number]], inputs, spans_T2))
    return sorted(parts, key=lambda window: window.question)


def answer_place(question: Question) -> tuple[int, int] | None:
    """Start and end of the first answer in the text: where it should be, or nearest to that; None if nowhere.

    >>> answer_place(Question("?", "a cat, a dog, a cat", [Answer("cat", 15)]))
    (16, 19)
    """
    text, start = question.answers[0]
    locations = [match.start() for match in re.finditer(f"(?={re.escape(text)})", question.context)] if text else []
    if not locations:
        return None
    nearest = min(locations, key=lambda location: abs(location - start))
    return nearest, nearest + len(text)


def question_examples(
    questions: Sequence[Question], tokenizer: PreTrainedTokenizerBase, longest: int, stride: int = 128
) -> list[Example]:
    """To learn from: windows with the first and last subword of the answer; without those that the text lacks."""
    from babelray.objectives.labelled import Example

    examples = []
    locations = [answer_place(question) for question in questions]
    for window in windows(questions, tokenizer, longest, stride):
        location = locations[window.question]
        if location is not None:
            examples.append(Example(window.inputs, answer_labels(window, location, tokenizer)))
    return examples


def answer_labels(window: Window, location: tuple[int, int], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """First and last subword of the answer; both those of the first special subword if it is not all in the window."""
    import numpy as np

    start, end = location
    starts_T, ends_T = window.spans_T2.T
    inside = np.flatnonzero(window.in_text & (starts_T < end) & (ends_T > start))
    whole = len(inside) and starts_T[inside[0]] <= start and ends_T[inside[-1]] >= end
    if whole:
        return [int(inside[0]), int(inside[-1])]
    ids = list(window.inputs["input_ids"])
    nowhere = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0
    return [nowhere, nowhere]


def best_span(starts_T: Tensor, ends_T: Tensor, longest: int = LONGEST_ANSWER) -> tuple[int, int, float]:
    """argmax_{i ≤ j ≤ i + longest} s_i + e_j, and the sum there.

    >>> import torch
    >>> best_span(torch.tensor([0.0, 2.0, 1.0]), torch.tensor([5.0, 0.0, 1.0]))
    (0, 0, 5.0)
    """
    import torch

    ends_TN = torch.nn.functional.pad(ends_T, (0, longest), value=-torch.inf).unfold(0, longest + 1, 1)
    best_T, offset_T = ends_TN.max(1)
    start = int((starts_T + best_T).argmax())
    return start, start + int(offset_T[start]), float(starts_T[start] + best_T[start])


def answer(
    model: PreTrainedModel,
    questions: Sequence[Question],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    batch_tokens: int,
    stride: int = 128,
) -> list[str]:
    """The span of its text that the model finds most likely to answer each question; empty if a text is."""
    import torch

    from babelray.objectives.labelled import predict, span_head

    read = windows(questions, tokenizer, longest, stride)
    logits = predict(model, span_head, [window.inputs for window in read], tokenizer, batch_tokens)
    best: dict[int, tuple[float, str]] = {}
    for window, logits_2T in zip(read, logits, strict=True):
        if not window.in_text.any():
            continue
        known_2T = logits_2T[:, : len(window.in_text)].masked_fill(~torch.from_numpy(window.in_text), -torch.inf)
        first, last, score = best_span(known_2T[0], known_2T[1])
        if window.question not in best or score > best[window.question][0]:
            text = questions[window.question].context[window.spans_T2[first, 0] : window.spans_T2[last, 1]]
            best[window.question] = score, text.strip()
    return [best[row][1] if row in best else "" for row in range(len(questions))]


def normal(text: str, code: str) -> str:
    """An answer as it is compared: lower case, without punctuation and articles, single spaces.

    >>> normal("The  U.S. army!", "en"), normal("Das Haus", "de")
    ('us army', 'haus')
    """
    letters = "".join(letter for letter in text.lower() if not _is_punctuation(letter))
    return " ".join(re.sub(ARTICLES[code], " ", letters).split() if code in ARTICLES else letters.split())


def _is_punctuation(letter: str) -> bool:
    """Also what ASCII counts as such, of which some are symbols in Unicode: $ + < = > ^ ` | ~."""
    return unicodedata.category(letter).startswith("P") or letter in "$+<=>^`|~"


def tokens(text: str, code: str) -> list[str]:
    """What two answers are compared by.

    >>> tokens("在 2015 年, OK", "zh")
    ['在', '2015', '年', 'ok']
    """
    return _TOKEN.findall(normal(text, code))


def exact_match(answer: str, answers: Sequence[str], code: str) -> float:
    """1 if the answer is one of the right ones."""
    return float(any(normal(answer, code) == normal(right, code) for right in answers))


def token_f1(answer: str, answers: Sequence[str], code: str) -> float:
    """F1 of the tokens that an answer shares with a right one, each as often as it is in both; the best over all.

    >>> token_f1("the big cat", ["a cat", "dog"], "en") == 2 / 3
    True
    """
    return max(_f1(tokens(answer, code), tokens(right, code)) for right in answers)


def _f1(answer: Sequence[str], right: Sequence[str]) -> float:
    if not answer or not right:
        return float(answer == right)
    return 2 * sum((Counter(answer) & Counter(right)).values()) / (len(answer) + len(right))


def answer_scores(predicted: Sequence[str], gold: Sequence[Sequence[str]], code: str) -> Mapping[str, list[float]]:
    """EM and F1 of each question."""
    pairs = list(zip(predicted, gold, strict=True))
    return {
        "exact_match": [exact_match(some, answers, code) for some, answers in pairs],
        "f1": [token_f1(some, answers, code) for some, answers in pairs],
    }
