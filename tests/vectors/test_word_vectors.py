from pathlib import Path

import pytest
import torch

from babelray.errors import DataError
from babelray.storage import Place
from babelray.vectors.word_vectors import WordVectors


def test_saved_and_loaded(tmp_path: Path) -> None:
    vectors = WordVectors(["a", "ß é", "\u2028x", "猫"], torch.randn(4, 3), [9, 5, 2, 1])
    place = Place.parse(tmp_path / "v")
    assert not WordVectors.is_complete(place)
    vectors.save(place)
    assert WordVectors.is_complete(place)
    again = WordVectors.load(place)
    assert (again.words, again.counts) == (vectors.words, vectors.counts)
    assert torch.equal(again.matrix, vectors.matrix)


def test_sizes_must_fit() -> None:
    with pytest.raises(DataError, match="2 words, 3 vectors and 2 counts"):
        WordVectors(["a", "b"], torch.eye(3), [1, 1])
