from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from babelray.errors import DataError
from babelray.languages import LANGUAGES
from babelray.lexicon.pairs import Pair, dictionary_pairs, is_held_out, parallel_pairs, read_pairs, write_pairs
from babelray.storage import Place


@given(st.integers(1, 500), st.floats(0, 0.99))
def test_held_out_share_is_met_to_one(count: int, share: float) -> None:
    assert abs(sum(is_held_out(i, share) for i in range(count)) - count * share) <= 1


def write(folder: Path, **texts: str) -> str:
    for code, text in texts.items():
        (folder / f"{code}.txt").write_text(text, encoding="utf-8")
    return str(folder / "{lang}.txt")


def test_parallel_text_holds_out_whole_paragraphs(tmp_path: Path) -> None:
    pattern = write(tmp_path, de="a\nb\n\nc\nd\n", en="A\nB\n\nC\nD\n")
    pairs = parallel_pairs(pattern, "de", "en", share=0.5)
    assert pairs == [Pair("a", "A", "train"), Pair("b", "B", "train"), Pair("c", "C", "test"), Pair("d", "D", "test")]


def test_dictionary_splits_never_share_a_source_word(tmp_path: Path) -> None:
    pattern = write(tmp_path, de="Bank\nBank | Ufer\nHaus\nAuto | Wagen\n", en="bank\nshore\nhouse\ncar\n")
    pairs = dictionary_pairs(pattern, "de", "en", share=0.5)
    assert Pair("bank", "bank", "test") in pairs, "held out with its other meaning"
    assert Pair("haus", "house", "train") in pairs
    assert {p.source for p in pairs if p.split == "train"}.isdisjoint(p.source for p in pairs if p.split == "test")


@pytest.mark.parametrize(
    ("de", "message"), [("a\n", "has 1 lines"), ("a\n\nc\n", r"de.txt, line 2: empty here"), ("a\nb\nc\nd", "4 lines")]
)
def test_files_that_are_not_aligned(tmp_path: Path, de: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parallel_pairs(write(tmp_path, de=de, en="A\nB\nC\n"), "de", "en", 0.5)


def test_written_and_read_back(tmp_path: Path) -> None:
    pairs = [Pair("é", "b", "train"), Pair("c", "d", "test")]
    write_pairs(Place.parse(tmp_path / "p.parquet"), pairs)
    assert read_pairs(Place.parse(tmp_path / "p.parquet"), "train") == pairs[:1]
    assert read_pairs(Place.parse(tmp_path / "p.parquet"), "test") == pairs[1:]


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "en"])
def test_starter_files_are_aligned(code: str) -> None:
    assert len(parallel_pairs("starter:text/{lang}.txt", code, "en", 0.2)) == 242
    assert len(dictionary_pairs("starter:words/{lang}.txt", code, "en", 0.2)) >= 400
