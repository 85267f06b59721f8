"""Speed of saving, loading, writing and reading word vectors. Prints one line of JSON per measurement.

    python tests/benchmarks/vectors.py native --words 200000 --dimension 768
    python tests/benchmarks/vectors.py text --words 20000 --dimension 300
    python tests/benchmarks/vectors.py binary --words 20000 --dimension 300

native  seconds to save and to load a folder of safetensors and vocabulary
text    reading and writing of `.vec` against a plain Python loop, alternately, as medians. Once with four decimals and
        a space at the end of the line, as fastText writes it, and once with all digits, as Babelray and gensim do
binary  seconds to write and to read `.bin`
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import numpy as np
import torch

from babelray.storage import Location
from babelray.vectors.formats import read_vectors, write_vectors
from babelray.vectors.word_vectors import WordVectors

ROUNDS = 5


def generate(words: int, dimension: int) -> WordVectors:
    torch.manual_seed(0)
    names = [f"word{i}" for i in range(words)]
    return WordVectors(names, 0.1 * torch.randn(words, dimension), list(range(words, 0, -1)))


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def read_plainly(path: Path) -> tuple[list[str], np.ndarray]:
    words, rows = [], []
    with path.open(encoding="utf-8", newline="\n") as file:
        next(file)
        for line in file:
            word, *numbers = line.rstrip().split(" ")
            words.append(word)
            rows.append(np.array(numbers, dtype=np.float32))
    return words, np.stack(rows)


def write_plainly(vectors: WordVectors, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{len(vectors)} {vectors.dimension}\n")
        for word, row in zip(vectors.words, vectors.matrix.numpy(), strict=True):
            file.write(word + " " + " ".join(str(value) for value in row) + "\n")


def write_as_fasttext(vectors: WordVectors, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{len(vectors)} {vectors.dimension}\n")
        for word, row in zip(vectors.words, vectors.matrix.tolist(), strict=True):
            file.write(word + " " + " ".join(f"{value:.4f}" for value in row) + " \n")


def compare(name: str, plain: Callable[[], object], ours: Callable[[], object], rounds: int) -> dict[str, object]:
    """Loop and library alternately, since the speed of a shared machine changes."""
    times = [(seconds(plain), seconds(ours)) for _ in range(rounds)]
    loop, library = (median(column) for column in zip(*times, strict=True))
    return {
        "benchmark": name,
        "loop_seconds": round(loop, 3),
        "seconds": round(library, 3),
        "times_as_fast": round(loop / library, 2),
    }


def native(folder: Path, vectors: WordVectors) -> list[dict[str, object]]:
    location = Location.parse(folder / "native")
    save = median(seconds(lambda: vectors.save(location)) for _ in range(ROUNDS))
    load = median(seconds(lambda: WordVectors.load(location)) for _ in range(ROUNDS))
    everything = median(seconds(lambda: WordVectors.load(location).matrix.sum()) for _ in range(ROUNDS))
    return [
        {"benchmark": "native save", "seconds": round(save, 3)},
        {"benchmark": "native load", "seconds": round(load, 3), "and_read_all": round(everything, 3)},
    ]


def text(folder: Path, vectors: WordVectors) -> list[dict[str, object]]:
    path = folder / "vectors.vec"
    location = Location.parse(path)
    results = []
    for style, write in (("as fastText", write_as_fasttext), ("all digits", write_plainly)):
        write(vectors, path)
        (_, expected), vectors_read = read_plainly(path), read_vectors(location)
        assert np.array_equal(expected, vectors_read.matrix.numpy()), style
        plain = lambda: read_plainly(path)  # noqa: E731
        results.append(compare(f"text read, {style}", plain, lambda: read_vectors(location), ROUNDS))
    ours = Location.parse(folder / "ours.vec")
    write = compare("text write", lambda: write_plainly(vectors, path), lambda: write_vectors(vectors, ours), 3)
    return [*results, write]


def binary(folder: Path, vectors: WordVectors) -> list[dict[str, object]]:
    location = Location.parse(folder / "vectors.bin")
    write = median(seconds(lambda: write_vectors(vectors, location)) for _ in range(ROUNDS))
    read = median(seconds(lambda: read_vectors(location)) for _ in range(ROUNDS))
    return [{"benchmark": "binary", "write_seconds": round(write, 3), "read_seconds": round(read, 3)}]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["native", "text", "binary"])
    parser.add_argument("--words", type=int)
    parser.add_argument("--dimension", type=int)
    arguments = parser.parse_args()
    default = (200_000, 768) if arguments.what == "native" else (20_000, 300)
    size = arguments.words or default[0], arguments.dimension or default[1]
    with tempfile.TemporaryDirectory(prefix="babelray-benchmark-") as temporary:
        for measurement in {"native": native, "text": text, "binary": binary}[arguments.what](
            Path(temporary), generate(*size)
        ):
            print(json.dumps({**measurement, "words": size[0], "dimension": size[1]}))
