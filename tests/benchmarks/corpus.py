"""Speed of the corpus stage, and memory of its workers. Prints one line of JSON per measurement.

    python tests/benchmarks/corpus.py speed --megabytes 400
    python tests/benchmarks/corpus.py memory --megabytes 200

speed   tokens per second of the whole stage on 2 workers, against a bare loop over the same segmenter on 2 processes;
        the workers of both are started before
memory  the largest resident memory of any worker, for the given amount of generated text and for twice as much
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

from rich.console import Console

from babelray.cluster import session as cluster
from babelray.cluster.progress import Progress
from babelray.recipe.corpus import CorpusConfig
from babelray.storage import Location
from babelray.text.build import CorpusLayout, build_corpus
from babelray.text.segment import Segmenter

ROUNDS = 3


def generate(path: Path, megabytes: float, seed: int = 0) -> None:
    """Realistic text: words by Zipf's law, sentences of 5 to 30 words, paragraphs of 1 to 6 sentences."""
    generator = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(generator.choices(letters, k=generator.randint(2, 10))) for _ in range(50_000)]
    weights = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(words))))
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < megabytes * 1e6:
            pool = iter(generator.choices(words, cum_weights=weights, k=25_000))
            lines = []
            for _ in range(300):
                paragraph = []
                for _ in range(generator.randint(1, 6)):
                    sentence = [word for word, _ in zip(pool, range(generator.randint(5, 30)), strict=False)]
                    if sentence:
                        paragraph.append(" ".join(sentence).capitalize() + ".")
                lines.append(" ".join(paragraph) + ("\n" if generator.random() < 0.2 else ""))
            text = "\n".join(lines) + "\n"
            written += file.write(text)


def stage(path: Path, out: Path) -> dict[str, int]:
    layout = CorpusLayout(
        CorpusConfig(text=[{"path": str(path), "languages": ["en"]}]), {"en": "icu"}, 1, Location.parse(out)
    )
    with Progress(Console(file=io.StringIO()), "corpus") as progress:
        return build_corpus(layout, {}, progress).counts["en"]


def bare(part: tuple[Path, int, int]) -> int:
    """The segmenter alone, over every second line."""
    path, which, of = part
    segmenter = Segmenter.for_language("en")
    tokens = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number % of == which:
                for sentence in segmenter.sentences(line.strip()):
                    tokens += len(segmenter.tokens(sentence))
    return tokens


def warm_up(folder: Path) -> None:
    """Start Ray's workers and their imports before the measurement."""
    generate(folder / "little.txt", 0.5)
    stage(folder / "little.txt", folder / "warm")


def speed(folder: Path, megabytes: float) -> dict[str, object]:
    """Medians of the bare loop and of the stage, alternately, since the speed of a shared machine changes."""
    path = folder / "text.txt"
    generate(path, megabytes)
    cluster.connect()
    warm_up(folder)
    bare_rates, stage_rates = [], []
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(time.sleep, [0.1, 0.1])  # start both processes
        for number in range(ROUNDS):
            start = time.perf_counter()
            tokens = sum(pool.map(bare, [(path, 0, 2), (path, 1, 2)], chunksize=1))
            bare_rates.append(tokens / (time.perf_counter() - start))
            start = time.perf_counter()
            statistics = stage(path, folder / f"out{number}")
            stage_rates.append(tokens / (time.perf_counter() - start))
            shutil.rmtree(folder / f"out{number}")
    cluster.disconnect()
    return {
        "benchmark": "corpus speed",
        "megabytes": megabytes,
        "tokens": tokens,
        "kept_tokens": statistics["tokens"],
        "bare_tokens_per_second": [round(rate) for rate in bare_rates],
        "stage_tokens_per_second": [round(rate) for rate in stage_rates],
        "share": round(median(stage_rates) / median(bare_rates), 3),
    }


class MemoryMonitor(threading.Thread):
    """The largest resident memory of any of Ray's workers."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.peak = 0

    def run(self) -> None:
        import psutil

        while not self.stop.wait(0.2):
            for process in psutil.Process().children(recursive=True):
                try:
                    if process.name().startswith("ray::") or "default_worker" in " ".join(process.cmdline()):
                        self.peak = max(self.peak, process.memory_info().rss)
                except psutil.Error:
                    continue


def memory(folder: Path, megabytes: float) -> dict[str, object]:
    peaks = {}
    for size in (megabytes, 2 * megabytes):
        path = folder / f"{size}.txt"
        generate(path, size)
        cluster.connect()
        monitor = MemoryMonitor()
        monitor.start()
        stage(path, folder / f"out{size}")
        monitor.stop.set()
        monitor.join()
        cluster.disconnect()
        peaks[size] = monitor.peak / 1e6
    once, twice = peaks.values()
    return {
        "benchmark": "corpus memory",
        "megabytes": [megabytes, 2 * megabytes],
        "peak_worker_megabytes": [round(once), round(twice)],
        "ratio": round(twice / once, 3),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "memory"])
    parser.add_argument("--megabytes", type=float, default=400)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="babelray-benchmark-") as temporary:
        result = {"speed": speed, "memory": memory}[arguments.what](Path(temporary), arguments.megabytes)
    print(json.dumps(result))
