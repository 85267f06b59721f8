"""Two small files of word vectors that are translations of each other, with their dictionaries."""

from __future__ import annotations

from pathlib import Path

import torch

from babelray.storage import Location
from babelray.vectors.formats import write_vectors
from babelray.vectors.word_vectors import WordVectors


def write_small_vectors(folder: Path) -> None:
    """Write `de.vec`, `en.vec`, `de-en.txt` and `de-en.test.txt`: 100 words in 8 dimensions, rotated."""
    generator = torch.Generator().manual_seed(0)
    space = torch.randn(100, 8, generator=generator)
    for code in ("de", "en"):
        turn = torch.linalg.qr(torch.randn(8, 8, generator=generator)).Q
        vectors = WordVectors([f"{code}{i}" for i in range(100)], space @ turn, [1] * 100)
        write_vectors(vectors, Location.parse(folder / f"{code}.vec"))
    (folder / "de-en.txt").write_text("".join(f"de{i} en{i}\n" for i in range(50)))
    (folder / "de-en.test.txt").write_text("".join(f"de{i} en{i}\n" for i in range(50, 100)))
