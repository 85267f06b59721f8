"""Answers as spans: the layouts, windows of long texts, the best span, and EM and F1 by worked examples."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from babelray.encoder.load import load_tokenizer
from babelray.errors import DataError
from babelray.evaluation.benchmark import System
from babelray.evaluation.question_answering import (
    Answer,
    Question,
    QuestionAnswering,
    answer_labels,
    answer_place,
    answer_scores,
    best_span,
    exact_match,
    normal,
    question_examples,
    read_questions,
    token_f1,
    windows,
)
from babelray.storage import Location


def squad(path: Path, questions: list[Question]) -> Location:
    paragraphs = [
        {
            "context": context,
            "qas": [
                {"id": str(row), "question": question, "answers": [{"text": a, "answer_start": s} for a, s in answers]}
            ],
        }
        for row, (question, context, answers) in enumerate(questions)
    ]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "x", "paragraphs": paragraphs}]}))
    return Location.parse(path)


def test_squad(tmp_path: Path) -> None:
    questions = [Question("Who?", "The cat and the dog.", [Answer("cat", 4), Answer("The cat", 0)])]
    assert read_questions(squad(tmp_path / "xquad.en.json", questions)) == questions


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "de.contexts.tsv").write_text("0\tDie Katze.\n1\tDer Hund.\n")
    (tmp_path / "de.qa.tsv").write_text("1\tid-a\tWer?\tHund\t4\n0\tid-b\tWas?\tKatze\t4\n")
    assert read_questions(Location.parse(tmp_path / "de.qa.tsv")) == [
        Question("Wer?", "Der Hund.", [Answer("Hund", 4)]),
        Question("Was?", "Die Katze.", [Answer("Katze", 4)]),
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not valid JSON"),
        ("[]", "not as in SQuAD"),
        ('{"data": []}', "there are no questions"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b"}]}]}]}', "qas.0 or .*answers"),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": []}]}]}]}',
            "without an answ",
        ),
    ],
)
def test_squad_that_is_wrong(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=problem):
        read_questions(Location.parse(tmp_path / "a.json"))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("0\tid\tWer?\tHund", "line 1: 4 columns instead of 5"),
        ("7\tid\tWer?\tHund\t4", "line 1: no text '7'"),
        ("0\tid\tWer?\tHund\tvier", "line 1: 'vier' is not a position"),
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, row: str, problem: str) -> None:
    (tmp_path / "de.contexts.tsv").write_text("0\tDer Hund.\n")
    (tmp_path / "de.qa.tsv").write_text(row + "\n")
    with pytest.raises(DataError, match=problem):
        read_questions(Location.parse(tmp_path / "de.qa.tsv"))


LONG = " ".join(f"The cat sleeps on bed {number}." for number in range(30))


@pytest.mark.parametrize(("longest", "stride"), [(40, 8), (64, 128), (24, 5)])
def test_windows_cover_the_text(tiny_encoder: str, longest: int, stride: int) -> None:
    """Every subword of the text is in some window, in its order; windows start as far apart as was asked."""
    tokenizer = load_tokenizer(tiny_encoder)
    questions = [Question("Where?", LONG, [Answer("bed", 0)]), Question("A very warm dog " * 9, "Short.", [])]
    read = windows(questions, tokenizer, longest, stride)
    assert [window.question for window in read] == sorted(window.question for window in read)
    assert max(len(window.inputs["input_ids"]) for window in read) <= longest
    offsets = tokenizer(LONG, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    first = [window for window in read if window.question == 0]
    covered = {tuple(span) for window in first for span in window.spans_T2[window.in_text].tolist()}
    assert covered == set(offsets) and len(first) > 2
    starts = [offsets.index(tuple(window.spans_T2[window.in_text][0].tolist())) for window in first]
    room = int(first[0].in_text.sum())
    assert {b - a for a, b in pairwise(starts)} == {min(stride, room // 2)}
    (second,) = (window for window in read if window.question == 1)
    assert second.in_text.any(), "a question that is too long leaves room for the text"


def test_labels_are_where_the_answer_is(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    start = LONG.index("bed 17")
    question = Question("Where?", LONG, [Answer("bed 17", start)])
    read = windows([question], tokenizer, 48, 16)
    cls = [0, 0]
    found = [answer_labels(window, (start, start + 6), tokenizer) for window in read]
    assert cls in found and any(labels != cls for labels in found)
    for window, (first, last) in zip(read, found, strict=True):
        inside = window.spans_T2[window.in_text]
        whole = inside[0, 0] <= start and inside[-1, 1] >= start + 6
        assert whole == ([first, last] != cls)
        if whole:
            assert LONG[window.spans_T2[first, 0] : window.spans_T2[last, 1]].strip() == "bed 17"
    examples = question_examples([question, Question("?", "abc", [Answer("z", 0)])], tokenizer, 48, 16)
    assert [list(example.labels) for example in examples] == found, "an answer that is nowhere is not learned"


def test_an_answer_that_is_not_where_it_should_be() -> None:
    assert answer_place(Question("?", "cat cat", [Answer("cat", 3)])) == (4, 7)
    assert answer_place(Question("?", "aaa", [Answer("aa", 1)])) == (1, 3), "also if it overlaps with itself"
    assert answer_place(Question("?", "dog", [Answer("cat", 0)])) is None


numbers = st.floats(-9, 9, width=32)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12), st.integers(0, 6))
def test_the_best_span_is_the_best_of_all(logits: list[tuple[float, float]], longest: int) -> None:
    starts, ends = (torch.tensor(side) for side in zip(*logits, strict=True))
    i, j, score = best_span(starts, ends, longest)
    every = [starts[a] + ends[b] for a in range(len(starts)) for b in range(a, min(len(starts), a + longest + 1))]
    assert 0 <= j - i <= longest and score == pytest.approx(float(max(every)), abs=1e-5)
    assert float(starts[i] + ends[j]) == pytest.approx(score, abs=1e-5)


def test_positions_outside_of_the_text_are_never_chosen() -> None:
    nothing = -torch.inf
    starts = torch.tensor([nothing, 1.0, 3.0, nothing])
    assert best_span(starts, torch.tensor([nothing, 2.0, 0.0, nothing]))[:2] in [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("en", "The  Cat's, an (old) one!", "cats old one"),
        ("de", "Einer der Hunde", "hunde"),
        ("de", "The Katze", "the katze"),
        ("es", "¿Los gatos?", "gatos"),
        ("vi", "Những con mèo", "con mèo"),
        ("ar", "البيت", "بيت"),
        ("hi", "बिल्ली।", "बिल्ली"),
        ("zh", "“在2015年”。", "在2015年"),
        ("en", "$5 + 3", "5 3"),
    ],
)
def test_answers_as_they_are_compared(code: str, text: str, expected: str) -> None:
    assert normal(text, code) == expected


def test_measures_by_hand() -> None:
    """big old cat, cat: 1 of 3 and 1 of 1, F1 1/2. 四次, 四: characters, 1 of 2 and 1 of 1."""
    assert token_f1("the big old cat", ["a cat"], "en") == pytest.approx(1 / 2)
    assert token_f1("cat cat", ["cat dog"], "en") == pytest.approx(1 / 2), "each as often as it is in both"
    assert token_f1("四次", ["四"], "zh") == pytest.approx(2 / 3)
    assert token_f1("แมวดำ", ["แมว"], "th") == pytest.approx(2 * 3 / (5 + 3))
    assert token_f1("在 IBM", ["IBM 在"], "zh") == 1 and exact_match("在 IBM", ["IBM 在"], "zh") == 0
    assert token_f1("dog", ["cat", "the dog"], "en") == exact_match("dog", ["cat", "the dog"], "en") == 1
    assert token_f1("the", ["a"], "en") == 1 and token_f1("", ["cat"], "en") == 0
    assert answer_scores(["x", "a y"], [["x"], ["y z"]], "en") == {
        "exact_match": [1.0, 0.0],
        "f1": [1.0, pytest.approx(2 / 3)],
    }


def test_transfer(tiny_encoder: str, tmp_path: Path) -> None:
    """The answer is the word after `the warm`, wherever it stands; long texts are read in windows."""
    nouns = ["cat", "dog", "bed", "garden"]
    fillers = ["A dog runs.", "A cat sleeps.", "The big garden."]

    def asked(number: int, long: int = 0) -> Question:
        noun = nouns[number % 4]
        before = " ".join(fillers[(number + step) % 3] for step in range(number % 3 + long))
        context = f"{before} on the warm {noun} {fillers[number // 4 % 3]}".strip()
        return Question("warm?", context, [Answer(noun, context.index(f"warm {noun}") + 5)])

    squad(tmp_path / "train.json", [asked(number) for number in range(48)])
    squad(tmp_path / "en.json", [asked(number) for number in range(12)])
    squad(tmp_path / "de.json", [asked(number, long=12) for number in range(4)])
    benchmark = QuestionAnswering(
        data=str(tmp_path / "{lang}.json"),
        train=str(tmp_path / "train.json"),
        seeds=[1],
        fine_tuning={"learning_rate": 5e-3, "batch_size": 16, "epochs": 25},
    )
    result = benchmark.score(System(tiny_encoder))
    assert result.scores["en"]["exact_match"] > 0.9
    kept: Any = result.predictions["de"]
    assert result.scores["de"]["examples"] == 4 and all(text for text in kept["answers"]["1"])
    assert kept["gold"][0] == ["cat"] and result.scores["de"]["f1"] == pytest.approx(sum(kept["example_scores"]) / 4)


def test_tables_are_sources_with_their_texts(tmp_path: Path) -> None:
    for name in ("de.qa.tsv", "de.contexts.tsv", "train.json"):
        (tmp_path / name).touch()
    benchmark = QuestionAnswering(data=str(tmp_path / "{lang}.qa.tsv"), train=str(tmp_path / "train.json"))
    assert [location.name for location in benchmark.sources()] == ["de.qa.tsv", "de.contexts.tsv", "train.json"]
