"""Classes of texts, or of pairs of texts, learned in one language and recognised in all.

The tables that such data are published in differ in little but the names of their columns:

    train.tsv, dev.tsv     SIB-200 (Adelani et al., 2024): index_id, category, text; or a column for each language
    test-de.tsv            XNLI (Conneau et al., 2018) as XTREME has it: premise, hypothesis, label; no header
    xnli.test.tsv          XNLI as published: language, gold_label, sentence1, sentence2
    test.tsv               Taxi1500 (Ma et al., 2023): id, label, text
    test.tsv               MasakhaNEWS (Adelani et al., 2023): category, headline, text
    dataset_de_test.json   Amazon reviews (Keung et al., 2020): one JSON object per line, with review_body and stars

    accuracy = 1/N Σ_n [ŷ_n = y_n]        macro F1 = 1/|C| Σ_c 2 TP_c / (2 TP_c + FP_c + FN_c)

where C holds the classes that occur in the gold labels or in the answers.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from babelray.config import Config
from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS
from babelray.evaluation.data_languages import names_of
from babelray.evaluation.tables import checked_number
from babelray.evaluation.transfer import Ranges, Reading, TransferBenchmark

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.encoder.load import HeadKind
    from babelray.objectives.labelled import Example, Head, Inputs
    from babelray.storage import Location

MAX_COLUMNS = 8
"""Columns that an error names."""
WHERE = "`where` asks for numbers in this column."
JSON_LINES = (".jsonl", ".json")

Column = str | int
"""A column's name; or, in a file without a header, its number, counted from 0."""


class TextColumns(Config):
    """The columns of the texts and their labels: by name, or by number in a file without a header."""

    text: str | int = "text"
    """The text; with `{lang}` in it, each language has a column of its own."""
    second: str | int | None = None
    """A text that is read together with the first, such as the hypothesis of XNLI."""
    label: str | int = "label"
    """The class of the text, or of both."""
    language: str | int | None = None
    """The column with the language of each row."""

    @model_validator(mode="after")
    def _names_or_numbers(self) -> Self:
        given = [column for column in (self.text, self.second, self.label, self.language) if column is not None]
        if len({type(column) for column in given}) > 1:
            raise ValueError("give the names of all columns, or the numbers of all: a file has a header or has none")
        return self

    @property
    def names_languages(self) -> bool:
        return self.language is not None or "{lang}" in str(self.text)


@BENCHMARKS.register
class Classification(TransferBenchmark):
    """A classifier on top of the encoder is trained in one language, English unless the recipe says otherwise, and
    tested in all: transfer shows what the languages share. Mean over seeds of the training. Alqahtani et al. (2021) do
    so with XNLI, Ye et al. (2024) with reviews and Taxi1500.
    """

    title: ClassVar[str] = "Text classification"
    main_metric: ClassVar[str] = "accuracy"
    columns: ClassVar[Mapping[str, str]] = {
        "examples": ",.0f",
        "accuracy": "%",
        "accuracy_spread": "%",
        "macro_f1": "%",
        "unseen": ",.0f",
    }
    head: ClassVar[HeadKind] = "classification"
    examples: ClassVar[Mapping[str, str]] = {
        "data": "topics/{lang}/test.tsv (a table with a header: text, label)",
        "train": "topics/{lang}/train.tsv (a table with a header: text, label)",
    }
    benchmark: Literal["classification"] = "classification"
    table: TextColumns = Field(default_factory=TextColumns)
    """The columns of the test table …"""
    train_table: TextColumns | None = None
    """… and of the training table, if they are others."""
    where: Ranges = Field(default_factory=dict)
    """Only test rows whose numbers in these columns are in these ranges, ends included …"""
    train_where: Ranges = Field(default_factory=dict)
    """… and only such training rows."""

    def _table(self, training: bool) -> TextColumns:
        return self.train_table or self.table if training else self.table

    def _names_languages(self, pattern: str, training: bool) -> bool:
        return "{lang}" in pattern or self._table(training).names_languages

    def _trains_on_tests(self) -> bool:
        return self.train == self.data and self.where == self.train_where

    def _read(self, location: Location, code: str, training: bool) -> list[Any]:
        table = self._table(training)
        columns = Columns(table.text, table.label, table.second, table.language)
        return read_texts(location, columns, names_of(code), self.train_where if training else self.where)

    def _labels_of(self, item: Any) -> Sequence[str]:
        return [item.label]

    def _chance(self, items: list[Any]) -> float:
        return Counter(item.label for item in items).most_common(1)[0][1] / len(items)

    def _apply_head(self) -> Head:
        from babelray.objectives.labelled import text_head

        return text_head

    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        return text_examples(items, reading.labels, reading.tokenizer, reading.longest)

    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]:
        return classify(model, items, reading.labels, reading.tokenizer, reading.longest, self.batch_tokens)

    def _score_answers(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        gold = [item.label for item in items]
        metrics = {
            "accuracy": accuracy(gold, answers),
            "macro_f1": macro_f1(gold, answers),
            "unseen": sum(label not in labels for label in gold),
        }
        return metrics, [float(a == b) for a, b in zip(gold, answers, strict=True)]

    def _gold(self, item: Any) -> Any:
        return item.label


class LabelledText(NamedTuple):
    """A text, the one that it is read together with if there is one, and the class of both."""

    text: str
    second: str | None
    label: str


class Columns(NamedTuple):
    """The columns of texts and labels in a table; `{lang}` in a name is replaced by a language.

    `language`: the column with the language of each row.
    """

    text: Column
    label: Column
    second: Column | None = None
    language: Column | None = None


def read_texts(
    location: Location, columns: Columns, names: Sequence[str], where: Mapping[str, tuple[float, float]] | None = None
) -> list[LabelledText]:
    """The labelled texts of one language; none if the table has no column, or no row, of it.

    `names`: possible names of the language there. `where`: only rows whose numbers in these columns are in these
    ranges, ends included. Rows without text are skipped.
    """
    rows = list(_rows(location, headed=isinstance(columns.text, str)))
    if not rows:
        raise DataError(f"{location}, line 1: there are no rows", "Give a table with a text and a label in every row.")
    header = list(rows[0][1])
    text, second = (_column(location, header, column, names) for column in (columns.text, columns.second))
    if text is None or (second is None and columns.second is not None):
        return []
    label, language = (_column(location, header, column, names) for column in (columns.label, columns.language))
    for name in where or {}:
        _column(location, header, name, names)
    rows_read = []
    for number, row in rows:
        at = f"{location}, line {number}"
        if language is not None and _cell(at, row, language) not in names:
            continue
        if not all(
            low <= checked_number(at, name, _cell(at, row, name), WHERE) <= high
            for name, (low, high) in (where or {}).items()
        ):
            continue
        one, two = _cell(at, row, text), None if second is None else _cell(at, row, second)
        if not one or two == "":
            continue
        if label is None or not (gold := _cell(at, row, label)):
            raise DataError(f"{at}: no label", f"Every row must have one in column {columns.label!r}.")
        rows_read.append(LabelledText(one, two, gold))
    if _has_lang(columns.text) and not any(character.isalpha() for row in rows_read for character in row.text):
        return []  # a column `id` may hold the numbers of rows, and no Indonesian
    return rows_read


def _has_lang(column: Column | None) -> bool:
    return isinstance(column, str) and "{lang}" in column


def _column(location: Location, header: list[str], column: Column | None, names: Sequence[str]) -> str | None:
    """The name of a column in this table; None if the language has no such column, or `column` is None."""
    if column is None:
        return None
    wanted = [str(column).replace("{lang}", name) for name in names] if _has_lang(column) else [str(column)]
    match = next((name for name in wanted if name in header), None)
    if match is None and not _has_lang(column):
        columns = ", ".join(header[:MAX_COLUMNS])
        raise DataError(f"{location}, line 1: no column {column!r}", f"It has: {columns}.")
    return match


def _rows(location: Location, headed: bool) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows by the names of their columns, or their numbers if there is no header; and the line of each."""
    text = location.read_text().removeprefix("\ufeff")
    if location.name.endswith(JSON_LINES):
        yield from _json_rows(location, text)
        return
    if location.name.endswith(".csv"):
        reader = csv.reader(io.StringIO(text, newline=""))
        lines = ((reader.line_num, cells) for cells in reader)
    else:
        lines = ((number, line.rstrip("\r").split("\t")) for number, line in enumerate(text.split("\n"), start=1))
    header: list[str] = []
    for number, cells in lines:
        if not any(cells):
            continue
        if not header:
            header = [cell.strip() for cell in cells] if headed else [str(column) for column in range(len(cells))]
            if headed:
                continue
        if len(cells) != len(header):
            problem = f"{location}, line {number}: {len(cells)} columns instead of {len(header)}"
            raise DataError(
                problem, "Give every row the same columns; cells of a .tsv are separated by tabs and not quoted."
            )
        yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True))


def _json_rows(location: Location, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"{location}, line {number}: not valid JSON ({error.msg})", "Give one object per line."
            ) from None
        if not isinstance(row, dict):
            raise DataError(
                f"{location}, line {number}: not a JSON object", 'A line is such as {"text": …, "label": …}.'
            )
        yield number, {name: "" if value is None else str(value).strip() for name, value in row.items()}


def _cell(at: str, row: Mapping[str, str], column: str) -> str:
    if column not in row:
        raise DataError(f"{at}: no {column!r}", f"It has: {', '.join([*row][:MAX_COLUMNS])}.")
    return row[column]


def encode_texts(texts: Sequence[LabelledText], tokenizer: PreTrainedTokenizerBase, longest: int) -> list[Inputs]:
    """The inputs of the encoder; of a pair of texts, the longer one is truncated first."""
    from babelray.objectives.labelled import split_inputs

    seconds: Any = None if not texts or texts[0].second is None else [text.second for text in texts]
    encoded = tokenizer([text.text for text in texts], seconds, truncation=True, max_length=longest)
    return split_inputs(encoded, tokenizer)


def text_examples(
    texts: Sequence[LabelledText], labels: Sequence[str], tokenizer: PreTrainedTokenizerBase, longest: int
) -> list[Example]:
    """Training examples: each text with the number of its class."""
    from babelray.objectives.labelled import Example

    numbers = {label: number for number, label in enumerate(labels)}
    encoded = encode_texts(texts, tokenizer, longest)
    return [Example(inputs, [numbers[text.label]]) for inputs, text in zip(encoded, texts, strict=True)]


def classify(
    model: PreTrainedModel,
    texts: Sequence[LabelledText],
    labels: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    batch_tokens: int,
) -> list[str]:
    """The class that the model finds most likely for each text."""
    from babelray.objectives.labelled import predict, text_head

    logits = predict(model, text_head, encode_texts(texts, tokenizer, longest), tokenizer, batch_tokens)
    return [labels[int(logits_1C[0].argmax())] for logits_1C in logits]


def accuracy(gold: Sequence[str], answers: Sequence[str]) -> float:
    """The share of answers that are right.

    >>> accuracy(["a", "a", "b"], ["a", "b", "b"]) == 2 / 3
    True
    """
    return fmean(a == b for a, b in zip(gold, answers, strict=True))


def macro_f1(gold: Sequence[str], answers: Sequence[str], no_class: str | None = None) -> float:
    """The mean over classes of F1, as in the module's docstring; `no_class` is an answer that is none of them.

    >>> macro_f1(["a", "a", "b"], ["a", "b", "b"]) == 2 / 3
    True
    """
    pairs = list(zip(gold, answers, strict=True))
    return fmean(
        2 * sum(a == b == c for a, b in pairs) / sum((a == c) + (b == c) for a, b in pairs)
        for c in {label for pair in pairs for label in pair} - {no_class}
    )
