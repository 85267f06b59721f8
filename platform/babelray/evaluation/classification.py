"""Classes of texts, or of pairs of texts, learned in one language and told in all.

The tables that such data are published in differ in little but the names of their columns:

    train.tsv, dev.tsv     SIB-200 (Adelani et al., 2024): index_id, category, text; or a column for each language
    test-de.tsv            XNLI (Conneau et al., 2018) as XTREME has it: premise, hypothesis, label; no header
    xnli.test.tsv          XNLI as published: language, gold_label, sentence1, sentence2
    test.tsv               Taxi1500 (Ma et al., 2023): id, label, text
    test.tsv               MasakhaNEWS (Adelani et al., 2023): category, headline, text
    dataset_de_test.json   Amazon reviews (Keung et al., 2020): a JSON object a line, with review_body and stars

    accuracy = 1/N Σ_n [ŷ_n = y_n]        macro F1 = 1/|C| Σ_c 2 TP_c / (2 TP_c + FP_c + FN_c)

where C holds the classes that are there, in the gold labels or in the answers.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from babelray.errors import DataError
from babelray.objectives.labelled import Example, Inputs, predict, split_inputs, text_head

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.storage import Place

MOST_SHOWN = 8
"""Columns that an error names."""
JSON_LINES = (".jsonl", ".json")

Column = str | int
"""A column's name; or, in a file without a header, its number, counted from 0."""


class LabelledText(NamedTuple):
    """A text, the one that it is read together with if there is one, and the class of both."""

    text: str
    second: str | None
    label: str


class Columns(NamedTuple):
    """Where in a table the texts and labels stand; `{lang}` in a name stands for a language.

    `language`: a column that says of which language a row is.
    """

    text: Column
    label: Column
    second: Column | None = None
    language: Column | None = None


def read_texts(
    place: Place, columns: Columns, names: Sequence[str], where: Mapping[str, tuple[float, float]] | None = None
) -> list[LabelledText]:
    """The labelled texts of one language; none if the table has no column, or no row, of it.

    `names` are what the language may be called there. `where`: only rows whose numbers in these columns lie between the
    two, both included. Rows without text are passed over.
    """
    rows = list(_rows(place, headed=isinstance(columns.text, str)))
    if not rows:
        raise DataError(f"{place}, line 1: there are no rows", "Give a table with a text and a label in every row.")
    known = list(rows[0][1])
    text, second = (_column(place, known, column, names) for column in (columns.text, columns.second))
    if text is None or (second is None and columns.second is not None):
        return []
    label, language = (_column(place, known, column, names) for column in (columns.label, columns.language))
    for name in where or {}:
        _column(place, known, name, names)
    found = []
    for number, row in rows:
        at = f"{place}, line {number}"
        if language is not None and _cell(at, row, language) not in names:
            continue
        if not all(
            low <= _number(at, name, _cell(at, row, name)) <= high for name, (low, high) in (where or {}).items()
        ):
            continue
        one, two = _cell(at, row, text), None if second is None else _cell(at, row, second)
        if not one or two == "":
            continue
        if label is None or not (told := _cell(at, row, label)):
            raise DataError(f"{at}: no label", f"Every row must have one in column {columns.label!r}.")
        found.append(LabelledText(one, two, told))
    if _has_lang(columns.text) and not any(character.isalpha() for row in found for character in row.text):
        return []  # a column `id` may hold the numbers of rows, and no Indonesian
    return found


def _has_lang(column: Column | None) -> bool:
    return isinstance(column, str) and "{lang}" in column


def _column(place: Place, known: list[str], column: Column | None, names: Sequence[str]) -> str | None:
    """What a column is called here; None if there is none for this language, or none is asked for."""
    if column is None:
        return None
    wanted = [str(column).replace("{lang}", name) for name in names] if _has_lang(column) else [str(column)]
    found = next((name for name in wanted if name in known), None)
    if found is None and not _has_lang(column):
        shown = ", ".join(known[:MOST_SHOWN])
        raise DataError(f"{place}, line 1: no column {column!r}", f"It has: {shown}.")
    return found


def _rows(place: Place, headed: bool) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows by the names of their columns, or their numbers if there is no header; and the line of each."""
    text = place.read_text().removeprefix("\ufeff")
    if place.name.endswith(JSON_LINES):
        yield from _json_rows(place, text)
        return
    if place.name.endswith(".csv"):
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
            problem = f"{place}, line {number}: {len(cells)} columns instead of {len(header)}"
            raise DataError(problem, "Give every row the same columns; cells of a .tsv are parted by tabs, unquoted.")
        yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True))


def _json_rows(place: Place, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{place}, line {number}: not valid JSON ({error.msg})", "Give an object a line.") from None
        if not isinstance(row, dict):
            raise DataError(f"{place}, line {number}: not a JSON object", 'A line is such as {"text": …, "label": …}.')
        yield number, {name: "" if value is None else str(value).strip() for name, value in row.items()}


def _cell(at: str, row: Mapping[str, str], column: str) -> str:
    if column not in row:
        raise DataError(f"{at}: no {column!r}", f"It has: {', '.join([*row][:MOST_SHOWN])}.")
    return row[column]


def _number(at: str, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        problem = f"{at}: {text!r} in column {column!r} is not a number"
        raise DataError(problem, "`where` asks for numbers in this column.")
    return value


def encode_texts(texts: Sequence[LabelledText], tokenizer: PreTrainedTokenizerBase, longest: int) -> list[Inputs]:
    """What the encoder reads: of a pair both texts, of which the longer one is cut first."""
    seconds: Any = None if not texts or texts[0].second is None else [text.second for text in texts]
    encoded = tokenizer([text.text for text in texts], seconds, truncation=True, max_length=longest)
    return split_inputs(encoded, tokenizer)


def text_examples(
    texts: Sequence[LabelledText], labels: Sequence[str], tokenizer: PreTrainedTokenizerBase, longest: int
) -> list[Example]:
    """To learn from: each text with the number of its class."""
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
    logits = predict(model, text_head, encode_texts(texts, tokenizer, longest), tokenizer, batch_tokens)
    return [labels[int(logits_1C[0].argmax())] for logits_1C in logits]


def accuracy(gold: Sequence[str], found: Sequence[str]) -> float:
    """The share of answers that are right.

    >>> accuracy(["a", "a", "b"], ["a", "b", "b"]) == 2 / 3
    True
    """
    return fmean(a == b for a, b in zip(gold, found, strict=True))


def macro_f1(gold: Sequence[str], found: Sequence[str], no_class: str | None = None) -> float:
    """The mean over classes of F1, as in the module's docstring; `no_class` is an answer that is none of them.

    >>> macro_f1(["a", "a", "b"], ["a", "b", "b"]) == 2 / 3
    True
    """
    pairs = list(zip(gold, found, strict=True))
    return fmean(
        2 * sum(a == b == c for a, b in pairs) / sum((a == c) + (b == c) for a, b in pairs)
        for c in {label for pair in pairs for label in pair} - {no_class}
    )
