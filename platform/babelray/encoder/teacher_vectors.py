"""A teacher's vectors, computed once for each distinct text, and mapped into memory by all that learn from them.

They are distributed over shards by keys of the texts, so that a sentence with translations in thirty languages is read
once. First the texts of each language are written to their shards, then the vectors of each shard are computed; both
are independent tasks, and what is complete is not done again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from babelray.storage.tables import read_table, write_rows

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.teacher import Teacher
    from babelray.storage import Location

AT_ONCE = 4096
"""Number of texts that the teacher gets at a time."""


def text_keys(texts: Iterable[str]) -> np.ndarray:
    """A 64-bit hash of each text."""
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.fromiter((int.from_bytes(digest) for digest in digests), np.uint64)


def scatter_texts(folder: Location, name: str, read: Callable[[], Sequence[str]], shards: int) -> None:
    """Write distinct texts to their shards, in files of a name. They are not read if that is done."""
    done = folder / "texts" / f"{name}.json"
    if done.exists():
        return
    distinct = list(dict.fromkeys(read()))
    shard_N = text_keys(distinct) % np.uint64(shards)
    for shard in np.unique(shard_N):
        rows = ({"text": distinct[row]} for row in np.flatnonzero(shard_N == shard))
        write_rows(folder / "texts" / str(shard) / f"{name}.parquet", rows, ["text"])
    done.write_json({"texts": len(distinct), "shards": shards})


def encode_shard(folder: Location, shard: int, load: Callable[[], Teacher]) -> None:
    """Write the keys of a shard's texts, in ascending order, and their vectors (N, E) in float16."""
    done = folder / "vectors" / f"{shard}.keys.npy"
    source = folder / "texts" / str(shard)
    if done.exists() or not source.exists():
        return
    texts = {text for name in source.files() for text in read_table(source / name)["text"].to_pylist()}
    ordered = sorted(zip(text_keys(texts).tolist(), texts, strict=True))
    teacher = load()
    starts = range(0, len(ordered), AT_ONCE)
    vectors = [teacher([text for _, text in ordered[start : start + AT_ONCE]]).numpy() for start in starts]
    with (folder / "vectors" / f"{shard}.npy").writing() as path, path.open("wb") as stream:
        np.save(stream, np.concatenate(vectors).astype(np.float16))
    with done.writing() as path, path.open("wb") as stream:
        np.save(stream, np.array([key for key, _ in ordered], np.uint64))


class TeacherVectors:
    """The vectors of texts that were scattered and encoded."""

    def __init__(self, folder: Location, shards: int) -> None:
        self._stack = ExitStack()
        local = self._stack.enter_context((folder / "vectors").local_input())
        self._shards: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for shard in range(shards):
            files = [local / f"{shard}.keys.npy", local / f"{shard}.npy"]
            if files[0].exists():
                keys_N, vectors_NE = (np.lib.format.open_memmap(file, mode="r") for file in files)
                self._shards[shard] = keys_N, vectors_NE
        self._count = np.uint64(shards)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Their vectors (N, E)."""
        import torch

        keys_N = text_keys(texts)
        shard_N = keys_N % self._count
        width = next(iter(self._shards.values()))[1].shape[1]
        result_NE = np.empty((len(texts), width), np.float32)
        for shard in np.unique(shard_N):
            rows = np.flatnonzero(shard_N == shard)
            known_M, vectors_ME = self._shards[int(shard)]
            found = np.searchsorted(known_M, keys_N[rows])
            if not np.array_equal(known_M[found.clip(max=len(known_M) - 1)], keys_N[rows]):
                raise KeyError(f"the teacher has not read all of {[texts[row] for row in rows[:3]]}")
            result_NE[rows] = vectors_ME[found]
        return torch.from_numpy(result_NE)

    def sample(self, count: int) -> Tensor:
        """Vectors (≤ count, E) of texts, an even sample: keys are random."""
        import torch

        chunks: list[np.ndarray] = []
        for _, vectors_ME in self._shards.values():
            chunks.append(vectors_ME[: count - sum(map(len, chunks))])
        return torch.from_numpy(np.concatenate(chunks).astype(np.float32))
