from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from babelray.extraction.given import GivenVectors
from babelray.storage import Location
from babelray.vectors.formats import write_vectors
from babelray.vectors.word_vectors import WordVectors


def test_vectors_are_read_from_each_languages_file(tmp_path: Path) -> None:
    vectors = WordVectors(["Katze", "Hund", "Haus"], torch.arange(6.0).reshape(3, 2), [3, 2, 1])
    write_vectors(vectors, tmp_path / "cc.de.vec")
    method = GivenVectors(path=f"{tmp_path}/cc.{{lang}}.vec", limit=2)
    assert method.sources(["de", "fr"]) == [Location.parse(tmp_path / f"cc.{code}.vec") for code in ("de", "fr")]
    read = method.read("de")
    assert read.words == ["Katze", "Hund"] and torch.equal(read.matrix, vectors.matrix[:2])


def test_the_path_names_the_language() -> None:
    with pytest.raises(ValidationError, match=r"needs a path with \{lang\} in it"):
        GivenVectors(path="cc.vec")
    with pytest.raises(ValidationError, match="path"):
        GivenVectors()  # type: ignore[call-arg]
