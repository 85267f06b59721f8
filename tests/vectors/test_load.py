"""Vectors from every source give the same words and numbers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from babelray.errors import DataError
from babelray.vectors.load import load_vectors
from babelray.vectors.word_vectors import WordVectors

WORDS = ["hund", "katze", "wasser"]
MATRIX = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def same(vectors: WordVectors, count: int = 3) -> None:
    assert vectors.words == WORDS[:count]
    assert torch.equal(vectors.matrix, MATRIX[:count])
    assert vectors.counts == sorted(vectors.counts, reverse=True) and min(vectors.counts) > 0


@pytest.mark.parametrize(
    "name", ["de.vec", "de.vec.gz", "de.txt", "de.bin", "de.bin.gz", "de", "de/vectors.safetensors"]
)
@pytest.mark.parametrize("limit", [None, 2])
def test_files_and_folders(tmp_path: Path, name: str, limit: int | None) -> None:
    WordVectors(WORDS, MATRIX, [30, 20, 10]).save(tmp_path / name.split("/")[0])
    same(load_vectors(tmp_path / name, limit=limit), limit or 3)
    same(load_vectors(str(tmp_path / name), limit=limit), limit or 3)


def test_safetensors_and_npy_of_others(tmp_path: Path) -> None:
    save_file({"embeddings": MATRIX, "weights": torch.ones(3, 3)}, tmp_path / "model.safetensors")
    np.save(tmp_path / "matrix.npy", MATRIX.numpy())
    (tmp_path / "words.txt").write_text("hund\t5\nkatze\t4\nwasser\t1\n")
    for name in ("model.safetensors", "matrix.npy"):
        same(load_vectors(tmp_path / name, words=WORDS))
        same(load_vectors(tmp_path / name, words=tmp_path / "words.txt"))
        with pytest.raises(DataError, match="has no words"):
            load_vectors(tmp_path / name)
    save_file({"a": MATRIX, "b": MATRIX.clone()}, tmp_path / "two.safetensors")
    with pytest.raises(DataError, match=r"unclear which matrix.*a, b"):
        load_vectors(tmp_path / "two.safetensors", words=WORDS)


@pytest.mark.parametrize("kind", [np.asarray, torch.Tensor.double, torch.Tensor.half, torch.Tensor.tolist])
def test_arrays(kind) -> None:
    vectors = load_vectors(kind(MATRIX), words=WORDS)
    assert vectors.words == WORDS and vectors.matrix.dtype == torch.float32
    assert torch.allclose(vectors.matrix, MATRIX, atol=2e-3)


def test_mappings_and_vectors_themselves() -> None:
    same(load_vectors(dict(zip(WORDS, MATRIX.numpy(), strict=True))))
    same(load_vectors(WordVectors(WORDS, MATRIX, [3, 2, 1]), limit=1), 1)


class KeyedVectors:
    """What gensim's class of this name has, of versions 4 and later."""

    index_to_key = WORDS
    vectors = MATRIX.numpy()

    def get_vecattr(self, word: str, name: str) -> int:
        assert name == "count"
        return {"hund": 9, "katze": 5, "wasser": 2}[word]


def test_gensim() -> None:
    same(load_vectors(KeyedVectors()))
    assert load_vectors(KeyedVectors()).counts == [9, 5, 2]
    same(load_vectors(SimpleNamespace(wv=KeyedVectors())))
    without_counts = SimpleNamespace(index_to_key=WORDS, vectors=MATRIX.numpy())
    assert load_vectors(without_counts).counts == [3, 2, 1]


def test_the_first_of_equal_words_counts() -> None:
    with pytest.warns(UserWarning, match=r"^2 of 4 words are left out \(repeated: 1; empty: 1\)$"):
        vectors = load_vectors(np.array([[1.0], [2.0], [3.0], [4.0]]), words=["a", "b", "a", ""])
    assert vectors.words == ["a", "b"] and vectors.matrix.tolist() == [[1.0], [2.0]]


def test_vectors_that_are_zero_are_counted(tmp_path: Path) -> None:
    vectors = WordVectors(WORDS, torch.tensor([[0.0, 0.0], [0.0, 1.0], [-0.0, 0.0]]), [3, 2, 1])
    vectors.save(tmp_path / "de.vec")
    vectors.save(tmp_path / "de")
    for source in (tmp_path / "de.vec", tmp_path / "de", dict(zip(WORDS, vectors.matrix.tolist(), strict=True))):
        with pytest.warns(UserWarning, match="2 of 3 vectors are zero") as caught:
            load_vectors(source)
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_vectors_that_are_not_finite_are_an_error(value: float) -> None:
    matrix = MATRIX.clone()
    matrix[1, 2] = value
    for source in (matrix, matrix.numpy(), SimpleNamespace(index_to_key=WORDS, vectors=matrix.numpy())):
        with pytest.raises(DataError, match="1 vectors have a value that is not finite, first that of 'katze'"):
            load_vectors(source, words=WORDS)


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "x.bert").write_text("")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="no vectors at"):
        load_vectors(tmp_path / "missing.vec")
    with pytest.raises(DataError, match="does not follow from the name"):
        load_vectors(tmp_path / "x.bert")
    with pytest.raises(DataError, match="cannot be read"):
        load_vectors(tmp_path / "pickled.npy", words=["a"])
    with pytest.raises(DataError, match=r"2 words and an array of shape \(3, 4\)"):
        load_vectors(MATRIX, words=["a", "b"])
    with pytest.raises(DataError, match="cannot make vectors of object"):
        load_vectors(object(), words=["a"])
    with pytest.raises(DataError, match="leaves no words"):
        load_vectors(MATRIX, words=WORDS, limit=0)
    with pytest.raises(DataError, match="there are no words"):
        load_vectors({})


def test_words_are_looked_up() -> None:
    vectors = load_vectors(MATRIX, words=WORDS)
    assert "hund" in vectors and "pferd" not in vectors
    assert torch.equal(vectors["katze"], MATRIX[1]) and torch.equal(vectors[["wasser", "hund"]], MATRIX[[2, 0]])
    with pytest.raises(KeyError, match="no vector of 'pferd'"):
        vectors[["hund", "pferd"]]
    assert len(repr(load_vectors(torch.ones(9999, 2), words=map(str, range(9999))))) < 100
    assert vectors.to_pandas().loc["hund"].tolist() == MATRIX[0].tolist()
