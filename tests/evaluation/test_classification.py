"""Classes of texts: the published tables, the measures against scikit-learn, and transfer with a tiny encoder."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from babelray.encoder.load import load_tokenizer
from babelray.errors import DataError
from babelray.evaluation.benchmark import System
from babelray.evaluation.classification import (
    Classification,
    Columns,
    LabelledText,
    accuracy,
    encode_texts,
    macro_f1,
    read_texts,
    text_examples,
)
from babelray.evaluation.data_languages import names_of
from babelray.storage import Location


def write(path: Path, *rows: str) -> Location:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row.replace("|", "\t") + "\n" for row in rows), encoding="utf-8")
    return Location.parse(path)


def test_sib200_and_taxi1500(tmp_path: Path) -> None:
    location = write(
        tmp_path / "test.tsv", "index_id|category|text", '7|travel|He said "go', "8|health| Fever. ", "9|x|"
    )
    expected = [LabelledText('He said "go', None, "travel"), LabelledText("Fever.", None, "health")]
    assert read_texts(location, Columns("text", "category"), ["en"]) == expected


def test_a_column_for_each_language(tmp_path: Path) -> None:
    location = write(tmp_path / "all.tsv", "id|category|de|eng_Latn", "1|a|eins|one", "2|b|zwei|two", "3|a||three")
    columns = Columns("{lang}", "category")
    assert [row.text for row in read_texts(location, columns, names_of("de"))] == ["eins", "zwei"]
    assert [row.text for row in read_texts(location, columns, names_of("en"))] == ["one", "two", "three"]
    assert read_texts(location, columns, names_of("fr")) == []
    assert read_texts(location, columns, names_of("id")) == [], "numbers of rows are not Indonesian"
    some = read_texts(location, columns, names_of("en"), {"id": (2, 3)})
    assert [row.text for row in some] == ["two", "three"]


def test_xnli_of_xtreme_has_no_header(tmp_path: Path) -> None:
    location = write(tmp_path / "test-de.tsv", "Es regnet.|Es ist nass.|entailment", "A.|B.|neutral")
    found = read_texts(location, Columns(0, 2, second=1), ["de"])
    assert found == [LabelledText("Es regnet.", "Es ist nass.", "entailment"), LabelledText("A.", "B.", "neutral")]
    assert len(read_texts(write(tmp_path / "n.tsv", "a|1|x", "b|2|y"), Columns(0, 2), ["de"], {"1": (2, 2)})) == 1


def test_xnli_as_published_names_the_language_of_a_row(tmp_path: Path) -> None:
    location = write(
        tmp_path / "xnli.test.tsv", "language|gold_label|sentence1|sentence2", "ar|neutral|x|y", "de|contradiction|a|b"
    )
    columns = Columns("sentence1", "gold_label", "sentence2", "language")
    assert read_texts(location, columns, ["de"]) == [LabelledText("a", "b", "contradiction")]
    assert read_texts(location, columns, ["fr"]) == []


def test_amazon_reviews_are_json_lines(tmp_path: Path) -> None:
    rows = [{"review_body": "Gut.\nSehr.", "stars": 5, "x": None}, {"review_body": "Schlecht.", "stars": 1, "x": 2}]
    location = write(tmp_path / "dataset_de_test.json", *map(json.dumps, rows), "")
    found = read_texts(location, Columns("review_body", "stars"), ["de"])
    assert [(row.text, row.label) for row in found] == [("Gut.\nSehr.", "5"), ("Schlecht.", "1")]


def test_csv_has_quotes(tmp_path: Path) -> None:
    location = write(tmp_path / "a.csv", "text,label", '"one, ""two""",a', "three,b")
    assert [row.text for row in read_texts(location, Columns("text", "label"), ["en"])] == ['one, "two"', "three"]


@pytest.mark.parametrize(
    ("name", "rows", "problem"),
    [
        ("a.tsv", [], "line 1: there are no rows"),
        ("a.tsv", ["text|label"], "line 1: there are no rows"),
        ("a.tsv", ["text|topic", "a|b"], "line 1: no column 'label'"),
        ("a.tsv", ["text|label", "a|b", "a|b|c"], "line 3: 3 columns instead of 2"),
        ("a.tsv", ["text|label", "a|"], "line 2: no label"),
        ("a.jsonl", ['{"text": "a", "label": "b"}', "{"], "line 2: not valid JSON"),
        ("a.jsonl", ["[1]"], "line 1: not a JSON object"),
        ("a.jsonl", ['{"text": "a", "label": "b"}', '{"text": "a"}'], "line 2: no 'label'"),
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, name: str, rows: list[str], problem: str) -> None:
    location = write(tmp_path / name, *rows)
    with pytest.raises(DataError, match=problem) as caught:
        read_texts(location, Columns("text", "label"), ["en"])
    assert caught.value.remedy and str(location) in caught.value.problem


def test_where_asks_for_numbers(tmp_path: Path) -> None:
    location = write(tmp_path / "a.tsv", "text|label|number", "a|b|x")
    with pytest.raises(DataError, match="line 2: 'x' in column 'number' is not a number"):
        read_texts(location, Columns("text", "label"), ["en"], {"number": (1, 2)})
    with pytest.raises(DataError, match="no column 'nummer'"):
        read_texts(location, Columns("text", "label"), ["en"], {"nummer": (1, 2)})


labels = st.sampled_from("abcd")


@settings(max_examples=60)
@given(st.lists(st.tuples(labels, labels), min_size=1))
def test_measures_are_those_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, found = map(list, zip(*pairs, strict=True))
    assert accuracy(gold, found) == pytest.approx(metrics.accuracy_score(gold, found))
    assert macro_f1(gold, found) == pytest.approx(metrics.f1_score(gold, found, average="macro"))


def test_macro_f1_by_hand() -> None:
    """a: 1 right of 2 gold and 1 found, F1 2/3; b: 1 of 1 and 2, F1 2/3; c, found only: 0."""
    assert macro_f1(["a", "a", "b", "b"], ["a", "b", "b", "c"]) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert macro_f1(["a", "b"], ["a", "?"], no_class="?") == pytest.approx(1 / 2)


def test_pairs_are_read_together_and_the_longer_is_cut(tiny_encoder: str) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    long = LabelledText("The cat sleeps on the warm bed. " * 9, "A dog runs.", "x")
    (inputs,) = encode_texts([long], tokenizer, 40)
    second = tokenizer("A dog runs.", add_special_tokens=False)["input_ids"]
    ids = list(inputs["input_ids"])
    assert len(ids) == 40 and ids[-1 - len(second) : -1] == second
    assert [example.labels for example in text_examples([long], ["w", "x"], tokenizer, 40)] == [[1]]


EN = [("The cat sleeps", "animal"), ("The dog runs", "animal"), ("The bed is warm", "thing"), ("A big garden", "thing")]
DE = [("Die Katze schläft", "animal"), ("Ein Hund läuft", "animal"), ("Das Bett", "thing"), ("Im Garten", "plant")]


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    for name, rows in (("en-train", EN * 6), ("en-test", EN), ("de-test", DE)):
        write(tmp_path / f"{name}.tsv", "text|label", *(f"{text}|{label}" for text, label in rows))
    return {"data": str(tmp_path / "{lang}-test.tsv"), "train": str(tmp_path / "{lang}-train.tsv")}


def test_transfer(tiny_encoder: str, data: dict[str, Any]) -> None:
    """What is learned in English is right there; every figure follows from the answers that are kept."""
    benchmark = Classification(
        **data, seeds=[1, 2], fine_tuning={"learning_rate": 5e-3, "batch_size": 8, "epochs": 12}, max_tokens=32
    )
    assert [location.name for location in benchmark.sources()] == ["de-test.tsv", "en-test.tsv", "en-train.tsv"]
    result = benchmark.score(System(tiny_encoder))
    assert list(result.scores) == ["de", "en"] and result.scores["en"]["accuracy"] >= 0.75
    for code, rows in (("de", DE), ("en", EN)):
        scores, kept = result.scores[code], result.predictions[code]
        gold = [label for _, label in rows]
        shares = [sum(a == b for a, b in zip(kept["answers"][seed], gold, strict=True)) / 4 for seed in ("1", "2")]
        assert kept["gold"] == gold and scores["examples"] == 4
        assert scores["accuracy"] == pytest.approx(sum(shares) / 2) == pytest.approx(sum(kept["example_scores"]) / 4)
        assert scores["accuracy_spread"] == pytest.approx(abs(shares[0] - shares[1]) / 2**0.5)
        assert {*benchmark.columns} <= {*scores}
        assert result.chance[code] == max(map(gold.count, gold)) / 4
        low, high = result.confidence("accuracy")[code]
        assert low < scores["accuracy"] < high or scores["accuracy"] == 1 == high
    assert result.scores["de"]["unseen"] == 1, "training has no plants"
    assert result.predictions["de"]["example_scores"][3] == 0
    json.dumps(result.predictions)


def test_one_seed_has_no_spread_and_is_repeated_exactly(tiny_encoder: str, data: dict[str, Any]) -> None:
    benchmark = Classification(
        **data, seeds=[3], languages=["de"], fine_tuning={"steps": 4, "batch_size": 4}, max_tokens=32
    )
    answers = [benchmark.answers(tiny_encoder, 3) for _ in range(2)]
    assert answers[0] == answers[1] and list(answers[0]) == ["de"]
    assert benchmark.result({3: answers[0]}).scores["de"]["accuracy_spread"] == 0


def test_training_and_test_rows_of_one_wide_table(tmp_path: Path) -> None:
    location = str(write(tmp_path / "a.tsv", "n|topic|de|en", "1|x|eins|one", "2|y|zwei|two", "3|x|drei|three"))
    benchmark = Classification(
        data=location,
        train=location,
        table={"text": "{lang}", "label": "topic"},
        where={"n": (3, 9)},
        train_where={"n": (1, 2)},
        train_languages=["en", "de"],
    )
    assert [str(source) for source in benchmark.sources()] == [location]
    assert {code: [row.text for row in rows] for code, rows in benchmark.training_data().items()} == {
        "en": ["one", "two"],
        "de": ["eins", "zwei"],
    }
    assert {code: [row.text for row in rows] for code, rows in benchmark.test_data().items()} == {
        "de": ["drei"],
        "en": ["three"],
    }


def test_a_training_table_with_other_columns(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "premise|hypo|label", "a|b|x", "c|d|y")
    write(tmp_path / "deu_Latn" / "test.tsv", "e|f|x")
    benchmark = Classification(
        data=str(tmp_path / "{lang}/t*.tsv"),
        train=str(tmp_path / "train.tsv"),
        table={"text": 0, "second": 1, "label": 2},
        train_table={"text": "premise", "second": "hypo", "label": "label"},
    )
    assert benchmark.training_data() == {"en": [("a", "b", "x"), ("c", "d", "y")]}
    assert benchmark.test_data() == {"de": [("e", "f", "x")]}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"data": "a.tsv"}, "put {lang} into the path of `data`"),
        ({"train": "a.tsv", "train_languages": ["en", "de"]}, "put {lang} into the path of `train`"),
        ({"train": "{lang}.tsv"}, "the test answers would be part of the training data"),
        ({"layer": 3}, "layer"),
        ({"seeds": [1, 1]}, "different numbers"),
        ({"table": {"text": "text", "label": 1}}, "the names of all columns, or the numbers of all"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Classification(**{"data": "{lang}.tsv", "train": "train-{lang}.tsv"} | settings)


def test_data_that_are_not_there(tmp_path: Path, data: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="no test data"):
        Classification(**data | {"data": str(tmp_path / "none-{lang}.tsv")}).sources()
    with pytest.raises(DataError, match="no training data of sw"):
        Classification(**data, hub="sw").sources()
    with pytest.raises(DataError, match="no examples of 'fr'"):
        Classification(**data, languages=["de", "fr"]).test_data()
    write(tmp_path / "one-en.tsv", "text|label", "a|x", "b|x")
    with pytest.raises(DataError, match="all training examples are 'x'"):
        Classification(**data | {"train": str(tmp_path / "one-{lang}.tsv")}).answers("babelray-mini", 1)
