"""Word vectors from whatever holds them: files of the field's formats, safetensors, arrays, gensim."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from babelray.errors import DataError
from babelray.storage import AnyPath, Location
from babelray.storage.runs import find_artifact
from babelray.vectors.formats import ENDINGS, read_vectors
from babelray.vectors.word_vectors import MATRIX, VOCABULARY, WordVectors, read_tensors

if TYPE_CHECKING:
    from torch import Tensor

FORMATS = (
    "Name a .vec, .txt or .bin file (or one of them and .gz), a .safetensors or .npy file, or a folder of vectors."
)
TENSORS = ("vectors", "embeddings")
"""What the matrix of a safetensors file may be called, if there are several."""


def load_vectors(source: Any, words: Sequence[str] | AnyPath | None = None, limit: int | None = None) -> WordVectors:
    """Load the word vectors of a language.

    Args:
        source: A file: `.vec`, `.txt` or `.bin` as word2vec, fastText and GloVe write them, also with `.gz`;
            `.safetensors`; `.npy`. A folder that Babelray wrote. Or an object: gensim's `KeyedVectors` (or a model that
            has them as `.wv`), a mapping of words to vectors, or a matrix as a numpy array or tensor.
        words: The words of a matrix, row by row: a list, or a text file with one word per line. A `.safetensors` file
            with a `vocabulary.tsv` beside it needs none.
        limit: The number of words to keep, the most frequent ones, which come first; all by default.

    Returns:
        The words with a matrix in float32. If a word occurs twice, its first vector is used.

    Warns:
        UserWarning: Words are left out, because they are repeated, empty or not UTF-8; or vectors are zero.

    Examples:
        >>> import numpy as np
        >>> import babelray as br
        >>> vectors = br.load_vectors(np.eye(3), words=["dog", "cat", "water"])
        >>> vectors
        WordVectors(3 words, 3 dimensions: dog, cat, water)
        >>> vectors["cat"]
        tensor([0., 1., 0.])
        >>> br.load_vectors({"dog": [0.5, 1.0], "cat": [1.0, 0.5]}, limit=1).words
        ['dog']
    """
    if limit is not None and limit < 1:
        raise DataError(f"a limit of {limit} leaves no words", "Give a limit of at least 1, or none.")
    if isinstance(source, WordVectors):
        return source.first(limit)
    if isinstance(source, str | Path | Location):
        vectors, name = _from_location(find_artifact(source), words, limit), f"{source}: "
    else:
        vectors, name = _from_object(source, words).first(limit), ""
    zero = len(vectors) - int(vectors.matrix.any(1).sum())
    if zero:
        warnings.warn(f"{name}{zero:,} of {len(vectors):,} vectors are zero", stacklevel=2)
    return vectors


def _from_object(source: Any, words: Sequence[str] | AnyPath | None) -> WordVectors:
    source = getattr(source, "wv", source)
    if hasattr(source, "index_to_key") and hasattr(source, "vectors"):
        return _from_gensim(source)
    if isinstance(source, Mapping):
        return _from_matrix(list(source.values()), list(source))
    return _from_matrix(source, words)


def _from_location(location: Location, words: Sequence[str] | AnyPath | None, limit: int | None) -> WordVectors:
    if WordVectors.is_complete(location):
        return WordVectors.load(location).first(limit)
    if not location.is_file():
        if files := _vectors_below(location):
            raise DataError(f"{location} has several sets of vectors", f"Name one: {', '.join(map(str, files))}.")
        raise DataError(f"there are no vectors at {location}", FORMATS)
    if location.name.endswith(".npy"):
        return _from_matrix(_read_array(location), words).first(limit)
    if location.name.endswith(".safetensors"):
        if words is None and location.name == MATRIX and WordVectors.is_complete(location.parent):
            return WordVectors.load(location.parent).first(limit)
        if words is None and (location.parent / VOCABULARY).exists():
            words = WordVectors.read_vocabulary(location.parent)[0]
        return _from_matrix(_only_matrix(location), words).first(limit)
    if not location.name.removesuffix(".gz").endswith(ENDINGS):
        raise DataError(f"{location}: the format does not follow from the name", FORMATS)
    return read_vectors(location, limit)


def _vectors_below(folder: Location) -> list[Location]:
    """The files and folders of vectors in a folder or an artifact."""
    names = folder.files()
    files = [folder / name for name in names if "/" not in name and name.removesuffix(".gz").endswith(ENDINGS)]
    folders = [name.rpartition("/")[0] for name in names if name.endswith(f"/{VOCABULARY}") and name.count("/") <= 2]
    return [*files, *(folder / name for name in folders)]


def _read_array(location: Location) -> Any:
    """The array of a `.npy` file; nothing is unpickled."""
    with location.open() as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise DataError(
                f"{location} cannot be read: {error}", "Save a matrix of numbers with numpy.save."
            ) from error


def _only_matrix(location: Location) -> Tensor:
    """The matrix of a safetensors file."""
    with location.local_input() as file:
        tensors = {name: tensor for name, tensor in read_tensors(file).items() if tensor.ndim == 2}
    named = [name for name in TENSORS if name in tensors] or list(tensors)
    if len(named) != 1:
        names = ", ".join(tensors) or "none"
        raise DataError(
            f"{location}: it is unclear which matrix holds the vectors; there are: {names}",
            f"Save the file with one matrix, or call it {' or '.join(map(repr, TENSORS))}.",
        )
    return tensors[named[0]]


def _from_gensim(vectors: Any) -> WordVectors:
    """The vectors of gensim's `KeyedVectors`, by their attributes: gensim need not be installed."""
    loaded = _from_matrix(vectors.vectors, list(vectors.index_to_key))
    try:
        counts = [int(vectors.get_vecattr(word, "count")) for word in loaded.words]
    except (AttributeError, KeyError):  # vectors without counts, such as those that were read from a file
        return loaded
    return WordVectors(loaded.words, loaded.matrix, counts)


def _from_matrix(matrix: Any, words: Sequence[str] | AnyPath | None) -> WordVectors:
    import torch

    if words is None:
        raise DataError("a matrix alone has no words", "Give them: load_vectors(matrix, words=…).")
    words = _read_words(words) if isinstance(words, str | Path | Location) else [str(word) for word in words]
    try:
        tensor = torch.as_tensor(matrix if isinstance(matrix, torch.Tensor) else np.asarray(matrix, np.float32))
    except (TypeError, ValueError) as error:
        raise DataError(f"cannot make vectors of {type(matrix).__name__}: {error}", FORMATS) from error
    if not words:
        raise DataError("there are no words", "Give at least one word with its vector.")
    if tensor.ndim != 2 or len(tensor) != len(words):
        problem = f"{len(words)} words and an array of shape {tuple(tensor.shape)} do not fit together"
        raise DataError(problem, "Give a matrix with one row per word.")
    first = {word: row for row, word in reversed([*enumerate(words)]) if word}
    rows = sorted(first.values())
    matrix_ND = tensor.detach().float().cpu()
    finite = matrix_ND.isfinite().all(1)
    if not finite.all():
        word = words[int((~finite).nonzero()[0])]
        problem = f"{int((~finite).sum()):,} vectors have a value that is not finite, first that of {word!r}"
        raise DataError(problem, "Leave these words out, or compute their vectors again.")
    if len(rows) < len(words):
        empty = sum(not word for word in words)
        kinds = {"repeated": len(words) - len(rows) - empty, "empty": empty}
        parts = "; ".join(f"{kind}: {count:,}" for kind, count in kinds.items() if count)
        problem = f"{len(words) - len(rows):,} of {len(words):,} words are left out ({parts})"
        warnings.warn(problem, stacklevel=4)  # the line that calls `load_vectors`
        words, matrix_ND = [words[row] for row in rows], matrix_ND[rows]
    return WordVectors(words, matrix_ND.contiguous(), list(range(len(words), 0, -1)))


def _read_words(path: AnyPath) -> list[str]:
    """One word per line; what follows a tab, such as a count, is ignored."""
    lines = Location.parse(path).read_text().removesuffix("\n").split("\n")
    return [line.rstrip("\r").split("\t")[0] for line in lines]
