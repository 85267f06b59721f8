from pathlib import Path

import pytest
import torch

from babelray.errors import DataError
from babelray.storage import Location
from babelray.vectors.word_vectors import MATRIX, VOCABULARY, WordVectors


def test_saved_and_loaded(tmp_path: Path) -> None:
    vectors = WordVectors(["a", "ß é", "\u2028x", "猫"], torch.randn(4, 3), [9, 5, 2, 1])
    location = Location.parse(tmp_path / "v")
    assert not WordVectors.is_complete(location)
    vectors.save(location)
    assert WordVectors.is_complete(location)
    again = WordVectors.load(location)
    assert (again.words, again.counts) == (vectors.words, vectors.counts)
    assert torch.equal(again.matrix, vectors.matrix)


def test_sizes_must_fit() -> None:
    with pytest.raises(DataError, match="2 words, 3 vectors and 2 counts"):
        WordVectors(["a", "b"], torch.eye(3), [1, 1])


@pytest.mark.parametrize("word", ["a\tb", "a\nb"])
def test_a_word_that_would_break_the_vocabulary_is_refused_before_anything_is_written(
    tmp_path: Path, word: str
) -> None:
    with pytest.raises(DataError, match="cannot be saved"):
        WordVectors(["x", word], torch.eye(2), [2, 1]).save(Location.parse(tmp_path / "v"))
    assert not (tmp_path / "v").exists()


def test_no_words_and_an_empty_word(tmp_path: Path) -> None:
    for words in ([], [""]):
        vectors = WordVectors(words, torch.ones(len(words), 3), [1] * len(words))
        vectors.save(Location.parse(tmp_path / "v"))
        again = WordVectors.load(Location.parse(tmp_path / "v"))
        assert again.words == words and torch.equal(again.matrix, vectors.matrix)


@pytest.mark.parametrize("text", ["a\t1\n", "a\nb\n", "a\t1\nb\n", "a\t1\nb\tmany\n", "a\t1\nb\t2\nc\t3\n", ""])
def test_a_vocabulary_that_does_not_fit_is_named(tmp_path: Path, text: str) -> None:
    location = Location.parse(tmp_path / "v")
    WordVectors(["a", "b"], torch.eye(2), [2, 1]).save(location)
    (location / VOCABULARY).write_text(text)
    with pytest.raises(DataError, match=r"vocabulary.tsv is damaged"):
        WordVectors.load(location)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of what is mapped")
def test_a_local_matrix_is_mapped_and_its_file_may_be_replaced(tmp_path: Path) -> None:
    location = Location.parse(tmp_path / "v")
    WordVectors(["a", "b"], torch.eye(2), [2, 1]).save(location)
    vectors = WordVectors.load(location)
    assert f"{location}/{MATRIX}" in Path("/proc/self/maps").read_text()
    vectors.with_matrix(torch.ones(2, 2)).save(location)
    assert torch.equal(vectors.matrix, torch.eye(2))
    assert torch.equal(WordVectors.load(location).matrix, torch.ones(2, 2))
    assert sorted(path.name for path in (tmp_path / "v").iterdir()) == [MATRIX, VOCABULARY]
