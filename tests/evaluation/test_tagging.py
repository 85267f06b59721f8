"""Tags of words: the published layouts, where labels land, and spans against seqeval."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from babelray.encoder.load import load_tokenizer
from babelray.errors import DataError
from babelray.evaluation.benchmark import System
from babelray.evaluation.tagging import (
    UNREAD,
    TaggedSentence,
    Tagging,
    _mean_f1,
    _sentence_counts,
    are_spans,
    encode_words,
    first_subwords,
    read_tagged,
    sentence_scores,
    span_scores,
    spans,
    word_examples,
    word_scores,
)
from babelray.objectives.labelled import NO_LABEL
from babelray.storage import Location

CONLLU = """# sent_id = 1
# text = Er geht zum Haus.
1|Er|er|PRON|_|_|2|nsubj|_|_
2|geht|gehen|VERB|_|_|0|root|_|_
3-4|zum|_|_|_|_|_|_|_|_
3|zu|zu|ADP|_|_|5|case|_|_
4|dem|der|DET|_|_|5|det|_|_
5|Haus|Haus|NOUN|_|_|2|obl|_|SpaceAfter=No
5.1|leer|_|VERB|_|_|_|_|_|_
6|.|.|PUNCT|_|_|2|punct|_|_

# text = Ja.
1|Ja|ja|INTJ|_|_|0|root|_|SpaceAfter=No
2|.|.|PUNCT|_|_|1|punct|_|_
"""


def write(path: Path, text: str) -> Location:
    path.write_text(text.replace("|", "\t"), encoding="utf-8")
    return Location.parse(path)


def test_universal_dependencies(tmp_path: Path) -> None:
    """Words written as one are left out for their parts; so are nodes that are not written."""
    first, second = read_tagged(write(tmp_path / "a.conllu", CONLLU))
    assert first.words == ["Er", "geht", "zu", "dem", "Haus", "."]
    assert first.tags == ["PRON", "VERB", "ADP", "DET", "NOUN", "PUNCT"]
    assert first.text(as_written=True) == "Er geht zu dem Haus .", "`dem` does not stand in the sentence as written"
    assert second.text(as_written=True) == "Ja." and second.text() == "Ja ."


def test_pan_x(tmp_path: Path) -> None:
    lines = "en:Ann|B-PER\nen:en:x|O\n\n\nen:Rome|B-LOC\n"
    expected = [TaggedSentence(["Ann", "en:x"], ["B-PER", "O"]), TaggedSentence(["Rome"], ["B-LOC"])]
    assert read_tagged(write(tmp_path / "test-en.tsv", lines)) == expected
    assert read_tagged(write(tmp_path / "test", "Ann NNP B-PER\r\n\r\nde:x O\r\n")) == [
        TaggedSentence(["Ann"], ["B-PER"]),
        TaggedSentence(["de:x"], ["O"]),
    ]


def test_a_sentence_a_line(tmp_path: Path) -> None:
    table = "s1|1|I don't.|I do n't .|PRON AUX PART PUNCT\ns2|0|Go|Go|VERB\n"
    first, second = read_tagged(write(tmp_path / "en.test.tsv", table))
    assert first == TaggedSentence(["I", "do", "n't", "."], ["PRON", "AUX", "PART", "PUNCT"], "I don't.")
    assert first.text(as_written=True) == "I don't." and second.words == ["Go"]
    plain = read_tagged(write(tmp_path / "sw.test.tsv", "Habari yako|NOUN PRON\n"))
    assert plain == [TaggedSentence(["Habari", "yako"], ["NOUN", "PRON"])]
    one = write(tmp_path / "one.tsv", "Habari|NOUN\n")
    assert read_tagged(one, "table") == read_tagged(one, "lines")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.conllu", "1|Er|er|PRON\n", "line 1: not a word of CoNLL-U"),
        ("a.conllu", "# text = x\n", "there are no sentences"),
        ("a.tsv", "Ann|O\nBob\n", "line 2: not a word and its tag"),
        ("a.tsv", "a b|X Y\na b|X Y Z\n", "line 2: 2 words but 3 tags"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, name: str, text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        read_tagged(write(tmp_path / name, text))
    assert caught.value.remedy


def test_labels_land_on_first_subwords(tiny_encoder: str) -> None:
    """A word's label stands where the text up to it is read, and nowhere else."""
    tokenizer = load_tokenizer(tiny_encoder)
    words = ["Sleeps", "warmgarden", "(", "猫", "在", ")"]
    sentence = TaggedSentence(words, list("ABCDEF"), "Sleeps warmgarden (猫在)")
    for as_written in (True, False):
        (example,) = word_examples([sentence], list("ABCDEF"), tokenizer, 64, as_written)
        text = sentence.text(as_written)
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        labelled = {location: label for location, label in enumerate(example.labels) if label != NO_LABEL}
        assert list(labelled.values()) == list(range(6)), "each word once, in order"
        for location, label in labelled.items():
            start = text.index(words[label])
            assert offsets[location][0] <= start < offsets[location][1], "the subword holds the word's first letter"
            assert offsets[location - 1][1] <= start, "and the one before it does not"
        assert len(example.inputs["input_ids"]) > 8, "some words are of several subwords"


def test_a_subword_of_two_words() -> None:
    assert first_subwords("猫在床", ["猫", "在", "床"], np.array([[0, 0], [0, 2], [2, 3]])).tolist() == [1, 1, 2]


def test_words_that_are_cut_off(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    sentence = TaggedSentence(["The", "cat"] * 30, ["D", "N"] * 30)
    ((inputs, places_W),) = encode_words([sentence], tokenizer, 16)
    assert len(inputs["input_ids"]) == 16
    read = int((places_W >= 0).sum())
    assert 0 < read < 16 and (places_W[read:] == -1).all() and (np.diff(places_W[:read]) > 0).all()


def test_spans_by_hand() -> None:
    assert spans(["B-A", "I-A", "E-A", "S-A", "O", "I-A", "I-B", "B-B"]) == [
        ("A", 0, 2),
        ("A", 3, 3),
        ("A", 5, 5),
        ("B", 6, 6),
        ("B", 7, 7),
    ]
    assert spans(["B-A", UNREAD, "I-A"]) == [("A", 0, 0), ("A", 2, 2)]
    assert spans([]) == spans(["O", "O"]) == []


def test_scores_of_spans_by_hand() -> None:
    """Gold: 3 spans; found: 4, of which one is too short, one of another type, one right, one where there is none."""
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O"]]
    found = [["B-PER", "O", "O", "B-ORG"], ["B-ORG", "B-LOC"]]
    scores = span_scores(gold, found)
    assert (scores["precision"], scores["recall"]) == (1 / 4, 1 / 3)
    assert scores["f1"] == pytest.approx(2 / 7) and scores["accuracy"] == pytest.approx(3 / 6)
    assert span_scores([["O"]], [["O"]])["f1"] == 0
    assert sentence_scores(gold, found, named=True) == [0, pytest.approx(2 / 3)]
    assert sentence_scores([["O"]], [["O"]], named=True) == [1]


some_tags = st.sampled_from(["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in ("A", "B-C"))])


@settings(max_examples=60)
@given(st.lists(st.lists(st.tuples(some_tags, some_tags), min_size=1, max_size=12), min_size=1, max_size=4))
def test_spans_are_those_of_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    gold, found = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    scores = span_scores(gold, found)
    for name in ("precision", "recall", "f1"):
        expected = getattr(metrics, f"{name}_score")(gold, found, zero_division=0)
        assert scores[name] == pytest.approx(expected)


def test_scores_of_words() -> None:
    scores = word_scores([["N", "V", "N"], ["V"]], [["N", "N", UNREAD], ["V"]])
    assert scores["accuracy"] == scores["f1"] == 2 / 4
    assert scores["macro_f1"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert sentence_scores([["N", "V"]], [["N", "N"]], named=False) == [0.5]
    assert are_spans(["O", "B-X"]) and not are_spans(["O", "NOUN"])


def test_the_interval_of_f1_is_that_of_words_or_spans() -> None:
    gold, predicted = [["N", "V", "N"], ["V"]] * 50, [["N", "V", "V"], ["V"]] * 50
    counts = _sentence_counts(gold, predicted, named=False)
    assert counts[:2] == [(4, 6), (2, 2)]
    sums = np.sum(counts, 0)
    assert _mean_f1(sums[None])[0] == word_scores(gold, predicted)["f1"]
    named, guessed = [["B-X", "I-X", "O"], ["O"]], [["B-X", "O", "B-Y"], ["O"]]
    sums = np.sum(_sentence_counts(named, guessed, named=True), 0)
    assert _mean_f1(sums[None])[0] == span_scores(named, guessed)["f1"]
    named = named[:1] * 2
    sums = np.sum(_sentence_counts(named, [["B-X", "I-X", "O"], guessed[0]], named=True), 0)
    assert _mean_f1(sums[None])[0] == span_scores(named, [["B-X", "I-X", "O"], guessed[0]])["f1"] == 2 / 5


def test_transfer(tiny_encoder: str, tmp_path: Path) -> None:
    """Which words are animals can be learned by heart; what is cut off is wrong, and counted."""
    words = {"The": "O", "A": "O", "cat": "B-PET", "dog": "B-PET", "bed": "O", "garden": "O", "sleeps": "O"}
    rows = [["The", one, "sleeps", "A", two] for one in words for two in words]
    lines = "\n\n".join("\n".join(f"{word}|{words[word]}" for word in row) for row in rows)
    write(tmp_path / "train-en.tsv", lines)
    write(tmp_path / "test-en.tsv", lines)
    write(tmp_path / "test-de.tsv", "\n".join("cat|B-PET" for _ in range(40)) + "\n\nKatze|B-TIER\n")
    benchmark = Tagging(
        data=str(tmp_path / "test-{lang}.tsv"),
        train=str(tmp_path / "train-{lang}.tsv"),
        seeds=[1],
        max_tokens=32,
        fine_tuning={"learning_rate": 5e-3, "batch_size": 8, "epochs": 30},
    )
    result = benchmark.score(System(tiny_encoder))
    low, high = result.confidence("f1")["en"]
    assert low <= result.scores["en"]["f1"] <= high and result.chance["en"] == 0
    assert result.scores["en"]["f1"] > 0.95 and result.scores["en"]["unread"] == 0
    kept: Any = result.predictions["de"]
    unread = kept["answers"]["1"][0].split(" ").count(UNREAD)
    assert result.scores["de"]["unread"] == unread > 20 and result.scores["de"]["words"] == 41
    assert result.scores["de"]["accuracy"] <= 1 - unread / 41 and result.scores["de"]["unseen"] == 1
    assert kept["gold"][1] == "B-TIER" and kept["example_scores"][1] == 0
