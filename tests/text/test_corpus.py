from pathlib import Path

import pytest

from babelray.errors import DataError
from babelray.languages import LANGUAGES
from babelray.storage import Place
from babelray.text.config import CorpusConfig
from babelray.text.corpus import build_language, clean, count_words, read_sentences, read_vocabulary, source_files

CONFIG = CorpusConfig(text="unused", format="paragraphs", min_tokens=4)
TEXT = [
    "The dog runs fast. The cat sleeps now. No.",
    "A headline without a friend here",
    "The dog runs fast. A held out one here.",
]


def test_cleaning_counts_every_sentence_once() -> None:
    rows, counts = clean(iter(TEXT), LANGUAGES["en"], CONFIG, frozenset(["A held out one here."]))
    assert [row["text"] for row in rows] == ["The dog runs fast.", "The cat sleeps now."]
    assert counts == {
        "read": 6,
        "kept": 2,
        "tokens": 10,
        "dropped: short sentence": 1,
        "dropped: short paragraph": 1,
        "dropped: duplicate": 1,
        "dropped: held out": 1,
    }
    assert counts["read"] == counts["kept"] + sum(n for name, n in counts.items() if name.startswith("dropped"))


def test_vocabulary_is_sorted_lower_case_words() -> None:
    rows, _ = clean(iter(TEXT), LANGUAGES["en"], CONFIG, frozenset())
    words = count_words(rows, CONFIG)
    assert words[0] == ("the", 2)
    assert "." not in dict(words)
    assert words[1:] == sorted(words[1:])
    assert count_words(rows, CONFIG.model_copy(update={"min_count": 2, "max_words": 1})) == [("the", 2)]


def test_a_language_is_written_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("\n".join(TEXT), encoding="utf-8")
    out = Place.parse(tmp_path / "out")
    files = source_files(str(tmp_path / "{lang}.txt"), "en")
    counts = build_language(LANGUAGES["en"], files, out, CONFIG, frozenset())
    table = read_sentences(out, "en")
    assert len(table) == counts["kept"] == 3
    assert table["tokens"].to_pylist()[0] == ["The", "dog", "runs", "fast", "."]
    assert len(read_vocabulary(out, "en")) == counts["types"]


def test_missing_and_empty_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file for language 'de' at"):
        source_files(str(tmp_path / "{lang}.txt"), "de")
    (tmp_path / "de.txt").write_text("")
    with pytest.raises(DataError, match="nothing is left of the text of 'de'"):
        build_language(LANGUAGES["de"], [Place.parse(tmp_path / "de.txt")], Place.parse(tmp_path), CONFIG, frozenset())
