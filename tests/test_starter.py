"""The starter corpus agrees across its languages: lines, numbers, names, scripts."""

import re
import unicodedata
from collections import Counter

import pytest

from babelray.languages import LANGUAGES
from conftest import ROOT
from support.starter import starter_lines
from test_languages import SCRIPTS

ENGLISH = starter_lines("en")
OTHERS = [code for code in LANGUAGES if code != "en"]


@pytest.mark.parametrize("code", LANGUAGES)
def test_same_lines_and_numbers(code: str) -> None:
    text = starter_lines(code)
    assert [bool(line) for line in text] == [bool(line) for line in ENGLISH]
    for number, (line, english) in enumerate(zip(text, ENGLISH, strict=True), start=1):
        assert Counter(re.findall(r"\d+", line)) == Counter(re.findall(r"\d+", english)), f"{code}, line {number}"
    sentences = [line for line in text if line]
    assert len(set(sentences)) == len(sentences) == 242


@pytest.mark.parametrize("code", OTHERS)
def test_same_names(code: str) -> None:
    table = (ROOT / "tests/starter_names" / f"{code}.tsv").read_text(encoding="utf-8")
    stems = dict(row.split("\t") for row in table.strip().split("\n"))
    assert len(stems) == 14
    for number, (line, english) in enumerate(zip(starter_lines(code), ENGLISH, strict=True), start=1):
        for name, stem in stems.items():
            there = unicodedata.normalize("NFC", stem).casefold() in line.casefold()
            assert there == (name in english), f"{code}, line {number}: {name}"


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("kind", ["text", "words"])
def test_letters_are_of_the_languages_script(code: str, kind: str) -> None:
    allowed = {SCRIPTS[LANGUAGES[code].script]}
    if code == "ja":
        allowed |= {"HIRAGANA", "KATAKANA", "PROLONGED"}
    text = "\n".join(starter_lines(code, kind))
    assert unicodedata.is_normalized("NFC", text)
    letters = {c for c in text if unicodedata.category(c) in ("Lu", "Ll", "Lo")}
    strange = {c for c in letters if not any(name in unicodedata.name(c) for name in allowed)}
    assert not strange


@pytest.mark.parametrize("code", LANGUAGES)
def test_words(code: str) -> None:
    words = starter_lines(code, "words")
    assert len(words) == 401 and words[-1] == "" and all(words[:-1])
