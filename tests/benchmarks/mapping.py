"""Speed of mapping methods. Prints one line of JSON per measurement.

    python tests/benchmarks/mapping.py self-learning --words 20000 --dimension 300
    python tests/benchmarks/mapping.py csls --words 200000 --dimension 300 --queries 20000
    python tests/benchmarks/mapping.py real-nvp --words 20000 --dimension 768

self-learning  one iteration of VecMap's self-learning: Babelray's, against a straightforward numpy implementation of
               the published algorithm, and against the matrix product that every implementation needs
csls           CSLS of all pairs of two vocabularies as a share of the machine's rate of float32 matrix products, and
               the peak memory; `--queries` limits the source words, for a quick measurement
real-nvp       a complete fit on this number of pairs, with the selection of the best epoch
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import numpy as np
import torch
from torch.nn import functional

from babelray.mapping.induction import Inducer
from babelray.mapping.procrustes import rotation
from babelray.mapping.real_nvp import RealNvpConfig, real_nvp
from babelray.vectors.retrieval import nearest

TURNS = 3


def spaces(words: int, dimension: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two vocabularies that are translations of each other, with noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(words, dimension, generator=generator)
    turn = torch.linalg.qr(torch.randn(dimension, dimension, generator=generator)).Q
    z = (x + torch.randn(words, dimension, generator=generator)) @ turn
    return functional.normalize(x), functional.normalize(z)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def published(
    x: np.ndarray, z: np.ndarray, source: np.ndarray, target: np.ndarray, keep: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One iteration as the papers describe it, in plain numpy: each similarity is computed where it is needed."""
    u, _, vt = np.linalg.svd(x[source].T @ z[target])
    turned = x @ (u @ vt)
    batch, k = 1000, 10

    def neighbourhood(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        means = np.zeros(len(rows), dtype=np.float32)
        for start in range(0, len(rows), batch):
            similarity = rows[start : start + batch] @ others.T
            for _ in range(k):
                best = similarity.argmax(1)
                means[start : start + batch] += similarity[np.arange(len(similarity)), best] / k
                similarity[np.arange(len(similarity)), best] = -np.inf
        return means

    def translate(rows: np.ndarray, others: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        chosen = np.empty(len(rows), dtype=np.int64)
        for start in range(0, len(rows), batch):
            similarity = rows[start : start + batch] @ others.T - penalty / 2
            dropped = random.random(similarity.shape, dtype=np.float32) >= keep
            similarity -= similarity.min()
            similarity[dropped] = 0
            chosen[start : start + batch] = similarity.argmax(1)
        return chosen

    forward = translate(turned, z, neighbourhood(z, turned))
    backward = translate(z, turned, neighbourhood(turned, z))
    own = np.arange(len(x))
    return np.concatenate([own, backward]), np.concatenate([forward, np.arange(len(z))])


def self_learning(words: int, dimension: int) -> dict[str, object]:
    x, z = spaces(words, dimension)
    inducer, generator = Inducer(words, words), torch.Generator().manual_seed(0)
    own = torch.arange(words)
    product = torch.empty(words, words)
    random = np.random.default_rng(0)

    def ours() -> object:
        return inducer(x @ rotation(x[own], z[own]), z, 0.1, generator)

    def plain() -> object:
        return published(x.numpy(), z.numpy(), own.numpy(), own.numpy(), 0.1, random)

    def floor() -> object:
        return torch.matmul(x, z.T, out=product)

    times = [[seconds(action) for action in (plain, ours, floor)] for _ in range(TURNS)]
    numpy_time, our_time, floor_time = (median(column) for column in zip(*times, strict=True))
    return {
        "benchmark": "self-learning iteration",
        "words": words,
        "dimension": dimension,
        "numpy_seconds": round(numpy_time, 2),
        "seconds": round(our_time, 2),
        "product_seconds": round(floor_time, 2),
        "times_as_fast": round(numpy_time / our_time, 2),
        "times_the_product": round(our_time / floor_time, 2),
    }


def csls(words: int, dimension: int, queries: int) -> dict[str, object]:
    x, z = spaces(words, dimension)
    asked = x[:queries]

    def rate_of_the_machine() -> float:
        """Matrix products of a favourable size, for some seconds."""
        left, right = torch.randn(4096, 4096), torch.randn(4096, 4096)
        return 2 * 4096**3 / min(seconds(lambda: left @ right) for _ in range(10))

    before = rate_of_the_machine()
    taken = seconds(lambda: nearest(asked, z, n=10, csls=10))
    machine = median([before, rate_of_the_machine()])
    rate = 2 * (2 * len(asked) * words * dimension) / taken  # one product for the neighbourhoods, one for the scores
    return {
        "benchmark": "CSLS",
        "words": [len(asked), words],
        "dimension": dimension,
        "seconds": round(taken, 1),
        "gigaflops": round(rate / 1e9),
        "machine_gigaflops": round(machine / 1e9),
        "share": round(rate / machine, 3),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def density(pairs: int, dimension: int) -> dict[str, object]:
    x, z = spaces(pairs, dimension)
    own = torch.arange(pairs)
    wall, processor = time.perf_counter(), time.process_time()
    real_nvp(x, z, (own, own), RealNvpConfig())
    return {
        "benchmark": "Real-NVP",
        "pairs": pairs,
        "dimension": dimension,
        "epochs": RealNvpConfig().epochs,
        "seconds": round(time.perf_counter() - wall, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["self-learning", "csls", "real-nvp"])
    parser.add_argument("--words", type=int)
    parser.add_argument("--dimension", type=int, default=300)
    parser.add_argument("--queries", type=int)
    arguments = parser.parse_args()
    if arguments.what == "csls":
        count = arguments.words or 200_000
        print(json.dumps(csls(count, arguments.dimension, arguments.queries or count)))
    elif arguments.what == "real-nvp":
        print(json.dumps(density(arguments.words or 20_000, arguments.dimension)))
    else:
        print(json.dumps(self_learning(arguments.words or 20_000, arguments.dimension)))
