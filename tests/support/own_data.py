"""What a first-time user brings: vectors, dictionaries and parallel text of their own, made from the starter corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from support.starter import starter_lines

WIDTH = 20
Pairs = Sequence[tuple[str, str]]


def word_pairs(first: str = "de", second: str = "en") -> list[tuple[str, str]]:
    """A few hundred words and their translations as they are written, each word once."""
    rows = zip(starter_lines(first, "words"), starter_lines(second, "words"), strict=True)
    cells = ((a.split(" | ")[0], b.split(" | ")[0]) for a, b in rows)
    pairs: dict[str, tuple[str, str]] = {}
    targets: set[str] = set()
    for a, b in cells:
        if a and b and " " not in a + b and a.lower() not in pairs and b.lower() not in targets:
            pairs[a.lower()] = (a, b)
            targets.add(b.lower())
    return list(pairs.values())


def write_vectors(folder: Path, pairs: Pairs, noise: float = 0.05) -> list[str]:
    """Lower-cased vectors `de.vec` and `en.vec`, of which one is the other turned, with noise; the options for both."""
    generator = np.random.default_rng(0)
    space = generator.normal(size=(len(pairs), WIDTH)) * np.linspace(2, 0.5, WIDTH)
    turn = np.linalg.qr(generator.normal(size=(WIDTH, WIDTH)))[0]
    turned = space @ turn + noise * generator.normal(size=space.shape)
    for name, side, matrix in (("de", 0, turned), ("en", 1, space)):
        texts = (" ".join(f"{x:.5f}" for x in row) for row in matrix)
        rows = (f"{pair[side].lower()} {text}" for pair, text in zip(pairs, texts, strict=True))
        (folder / f"{name}.vec").write_text("\n".join([f"{len(pairs)} {WIDTH}", *rows]) + "\n", encoding="utf-8")
    return ["--source", str(folder / "de.vec"), "--target", str(folder / "en.vec")]


def write_dictionary(file: Path, pairs: Iterable[Sequence[str]], encoding: str = "utf-8", separator: str = "\t") -> str:
    file.write_bytes("".join(f"{a}{separator}{b}\n" for a, b in pairs).encode(encoding))
    return str(file)


def write_parallel_text(folder: Path, count: int, **languages: str) -> str:
    """Sentences with their English translations in LASER's layout; of each name the text of a language."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in languages.items():
        for ending, text in ((name, code), ("en", "en")):
            sentences = [line for line in starter_lines(text) if line][:count]
            (folder / f"tatoeba.{name}-en.{ending}").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return str(folder)
