"""A teacher's vectors in shards on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch

from babelray.encoder.teacher_vectors import TeacherVectors, encode_shard, scatter_texts, text_keys
from babelray.storage import Location

TEXTS = [f"sentence {number}" for number in range(200)]
SHARDS = 8


def vectors_of(texts: list[str]) -> torch.Tensor:
    return torch.tensor([[float(text.split()[1]), -1.0, 0.5] for text in texts])


@pytest.fixture
def folder(tmp_path: Path) -> Location:
    folder = Location.parse(tmp_path)
    scatter_texts(folder, "de", lambda: TEXTS[:150], SHARDS)
    scatter_texts(folder, "fr", lambda: TEXTS[100:] + TEXTS[100:], SHARDS)
    for shard in range(SHARDS):
        encode_shard(folder, shard, lambda: vectors_of)
    return folder


def test_every_text_has_its_vector(folder: Location) -> None:
    vectors = TeacherVectors(folder, SHARDS)
    mixed = [TEXTS[row] for row in np.random.default_rng(0).permutation(200)] + TEXTS[:3]
    assert torch.equal(vectors(mixed), vectors_of(mixed))
    with pytest.raises(KeyError, match="unknown"):
        vectors(["sentence 1", "unknown"])


def test_each_is_computed_once(folder: Location) -> None:
    files = folder.path / "vectors"
    assert sum(len(np.load(file)) for file in files.glob("*.keys.npy")) == 200
    assert all(np.load(file).dtype == np.float16 for file in files.glob("[0-9].npy"))

    def load() -> None:
        raise AssertionError("what is complete is not done again")

    (files / "3.npy").write_bytes(b"")  # as after a kill: its keys are written last
    before = (files / "3.keys.npy").read_bytes()
    (files / "3.keys.npy").unlink()
    encode_shard(folder, 3, lambda: vectors_of)
    assert (files / "3.keys.npy").read_bytes() == before and len(np.load(files / "3.npy"))
    for shard in range(SHARDS):
        encode_shard(folder, shard, load)  # type: ignore[arg-type]
    scatter_texts(folder, "de", load, SHARDS)  # type: ignore[arg-type]


def test_a_sample_is_of_distinct_texts(folder: Location) -> None:
    sample = TeacherVectors(folder, SHARDS).sample(50)
    assert sample.shape == (50, 3) and len(sample.unique(dim=0)) == 50
    assert TeacherVectors(folder, SHARDS).sample(1000).shape == (200, 3)


def test_keys_are_the_same_in_every_process() -> None:
    assert text_keys(iter(["Hund"])).tolist() == [9102434123572744279]
