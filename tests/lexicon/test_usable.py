"""Dictionaries as users have them: with other separators, from a pipe, as a dict."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from babelray.errors import DataError
from babelray.lexicon.usable import read_usable, read_word_pairs

PAIRS = [("hund", "dog"), ("katze", "cat"), ("guten tag", "good day")]
SOURCE, TARGET = zip(*PAIRS, strict=True)


@pytest.mark.parametrize("separator", [",", ";", ", ", "; "])
def test_commas_and_semicolons_are_named(tmp_path: Path, separator: str) -> None:
    file = tmp_path / "de-en.csv"
    file.write_text("".join(f"{a}{separator}{b}\n" for a, b in PAIRS[:2]))
    with pytest.raises(DataError, match=r"separated by a comma or semicolon instead of a tab: 2, first in line 1"):
        read_word_pairs(file)


def test_commas_between_words_with_spaces_are_named_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("guten tag,good day\nguten abend;good evening\n")
    with pytest.raises(DataError, match="separated by a comma or semicolon instead of a tab: 2"):
        read_word_pairs(tmp_path / "a.csv")


def test_punctuation_is_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(", ,\n; ;\n1,5 1.5\n1,5\t1.5\nja,\tyes,\n")
    pairs, problems = read_word_pairs(tmp_path / "a.txt")
    assert pairs == [(",", ","), (";", ";"), ("1,5", "1.5"), ("1,5", "1.5"), ("ja,", "yes,")]
    assert problems.count == 0


@pytest.mark.parametrize("kind", ["named", "/dev/fd"])
def test_a_pipe_is_read(tmp_path: Path, kind: str) -> None:
    if kind == "named":
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("hund dog\nkatze cat\n",))
        writer.start()
        pairs, _ = read_word_pairs(tmp_path / "pipe")
        writer.join()
    else:
        reading, writing = os.pipe()
        os.write(writing, b"hund dog\nkatze cat\n")
        os.close(writing)
        pairs, _ = read_word_pairs(f"/dev/fd/{reading}")
        os.close(reading)
    assert pairs == PAIRS[:2]


def test_a_dict_is_its_items() -> None:
    assert read_usable(dict(PAIRS), SOURCE, TARGET).pairs == read_usable(PAIRS, SOURCE, TARGET).pairs == PAIRS


def test_no_dictionary_has_no_name() -> None:
    with pytest.raises(DataError, match=r"no dictionary at none\n.*Leave out --dictionary"):
        read_word_pairs("none")
