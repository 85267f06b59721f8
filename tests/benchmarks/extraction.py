"""How fast static vectors are extracted. Prints one line of JSON for each measurement.

    python tests/benchmarks/extraction.py speed                          # an encoder of XLM-R base's shape
    python tests/benchmarks/extraction.py speed --width 128 --layers 4 --layer 3
    python tests/benchmarks/extraction.py together

speed     words per second of the extraction (tokenizing, forward pass, contexts, learning) as a share of the bare
          forward pass of the same encoder, cut at the same layer, over the same batches; and for comparison the rate of
          the forward pass through all layers, and in the order of the text instead of batches of similar length
together  two languages at once on two workers, against one after the other on one worker with both cores
memory    the largest resident memory while extracting a corpus, and those two and four times as large
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch
from safetensors.torch import load_file, save_file
from transformers import XLMRobertaConfig, XLMRobertaModel

from babelray.encoder.layers import LayerReader
from babelray.encoder.scratch import train_tokenizer
from babelray.extraction import occurrences
from babelray.extraction.config import ExtractConfig
from babelray.extraction.language import LanguageExtraction
from babelray.extraction.occurrences import Batch, Sentence
from babelray.storage.place import STARTER
from babelray.text.segment import Segmenter

TURNS = 3
LANGUAGES = ("en", "de", "ru", "hi", "zh", "sw")


def starter_sentences(count: int) -> list[Sentence]:
    texts = [
        (code, line)
        for code in LANGUAGES
        for line in (STARTER / "text" / f"{code}.txt").read_text(encoding="utf-8").split("\n")
        if line
    ]
    texts = (texts * (count // len(texts) + 1))[:count]
    return [Sentence(text, Segmenter.of(code).tokens(text)) for code, text in texts]


def in_order(lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Batches of the same budget, as the text comes."""
    batch: list[int] = []
    for i in range(len(lengths)):
        if batch and max(lengths[j] for j in [*batch, i]) * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(i)
    yield batch


def forward(reader: LayerReader, batches: list[Batch]) -> None:
    for batch in batches:
        reader(batch.ids_BT, batch.mask_BT)


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def make(arguments: argparse.Namespace, sentences: list[Sentence]) -> tuple[LanguageExtraction, XLMRobertaModel]:
    """A language's extraction with an encoder of the shape that is asked for, and the same encoder uncut."""
    vocabulary = Counter(token.lower() for sentence in sentences for token in sentence.tokens)
    tokenizer = train_tokenizer([s.text for s in starter_sentences(1500)], 6000, 512)
    shape = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=arguments.width,
        num_hidden_layers=arguments.layers,
        num_attention_heads=max(1, arguments.width // 64),
        intermediate_size=4 * arguments.width,
        max_position_embeddings=514,
    )
    torch.manual_seed(0)
    whole = XLMRobertaModel(shape, add_pooling_layer=False).eval()
    reader = LayerReader(copy.deepcopy(whole), [arguments.layer])
    config = ExtractConfig.model_validate({"method": arguments.method, "x2static": {"min_steps": 1}})
    return LanguageExtraction(config, reader, tokenizer, vocabulary, arguments.layer, seed=1), whole


def extract(made: LanguageExtraction, sentences: list[Sentence], folder: Path | None = None) -> None:
    """As a worker does: block by block, and then the vectors; with a folder, blocks are kept there."""
    blocks: list[dict[str, torch.Tensor]] = []
    size = made.config.block_sentences if folder is None else 500
    for number, start in enumerate(range(0, len(sentences), size)):
        block = made.block(number, made.prepare(sentences[start : start + size], Counter()))
        if folder is None:
            blocks.append(block)
        else:
            save_file(block, folder / f"{number:06}.safetensors")
    made.combine(lambda: map(load_file, sorted(folder.iterdir())) if folder else blocks, made.layer)


def speed(arguments: argparse.Namespace) -> dict[str, object]:
    sentences = starter_sentences(arguments.sentences)
    made, uncut = make(arguments, sentences)
    options = (sentences, made.tokenizer, made.position, made.longest, made.config.batch_tokens)
    counts: Counter[str] = Counter()
    bucketed = list(occurrences.batches(*options, counts))
    bucketing, occurrences.token_budget_batches = occurrences.token_budget_batches, in_order
    unsorted = list(occurrences.batches(*options, Counter()))
    occurrences.token_budget_batches = bucketing

    whole = LayerReader(uncut, [arguments.layers])
    runs: dict[str, Callable[[], object]] = {
        "bare": lambda: forward(made.reader, bucketed),
        "extraction": lambda: extract(made, sentences),
        "all_layers": lambda: forward(whole, bucketed),
        "without_bucketing": lambda: forward(made.reader, unsorted),
    }
    forward(made.reader, bucketed[:1])
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            seconds[name].append(timed(run))
    rates = {name: counts["words"] / median(times) for name, times in seconds.items()}
    return {
        "benchmark": "extraction speed",
        "method": arguments.method,
        "encoder": f"{arguments.layers} layers of {arguments.width}, read at {arguments.layer}",
        "words": counts["words"],
        **{f"{name}_words_per_second": round(rate) for name, rate in rates.items()},
        "share": round(rates["extraction"] / rates["bare"], 3),
    }


def alone(arguments: argparse.Namespace, threads: int, languages: int, ready: Any, go: Any) -> None:
    """Extract some languages, one after the other, when told to."""
    torch.set_num_threads(threads)
    sentences = starter_sentences(arguments.sentences)
    made, _ = make(arguments, sentences)
    forward(made.reader, made.prepare(sentences[:50], Counter()))
    ready.release()
    go.wait()
    for _ in range(languages):
        extract(made, sentences)


def together(arguments: argparse.Namespace) -> dict[str, object]:
    context = multiprocessing.get_context("spawn")
    seconds: dict[str, list[float]] = {"at_once": [], "one_after_the_other": []}
    for _ in range(TURNS):
        for name, processes, threads, languages in (("at_once", 2, 1, 1), ("one_after_the_other", 1, 2, 2)):
            ready, go = context.Semaphore(0), context.Event()
            running = [
                context.Process(target=alone, args=(arguments, threads, languages, ready, go)) for _ in range(processes)
            ]
            for process in running:
                process.start()
            for _ in running:
                ready.acquire()
            start = time.perf_counter()
            go.set()
            for process in running:
                process.join()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: median(times) for name, times in seconds.items()}
    return {
        "benchmark": "two languages at once",
        "encoder": f"{arguments.layers} layers of {arguments.width}, read at {arguments.layer}",
        **{f"{name}_seconds": [round(time, 1) for time in times] for name, times in seconds.items()},
        "ratio": round(medians["at_once"] / medians["one_after_the_other"], 3),
    }


def largest(arguments: argparse.Namespace, sentences: int, peak: Any) -> None:
    text = starter_sentences(sentences)
    made, _ = make(arguments, text)
    with tempfile.TemporaryDirectory(prefix="babelray-benchmark-") as folder:
        extract(made, text, Path(folder))
    peak.value = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def memory(arguments: argparse.Namespace) -> dict[str, object]:
    context = multiprocessing.get_context("spawn")
    peaks = []
    for sentences in (arguments.sentences, 2 * arguments.sentences, 4 * arguments.sentences):
        peak = context.Value("d", 0.0)
        process = context.Process(target=largest, args=(arguments, sentences, peak))
        process.start()
        process.join()
        peaks.append(peak.value)
    return {
        "benchmark": "extraction memory",
        "sentences": [arguments.sentences, 2 * arguments.sentences, 4 * arguments.sentences],
        "peak_megabytes": [round(peak) for peak in peaks],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "together", "memory"])
    parser.add_argument("--method", choices=["x2static", "aggregate"], default="x2static")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--layer", type=int, default=6)
    parser.add_argument("--sentences", type=int, default=1500)
    chosen = parser.parse_args()
    print(json.dumps({"speed": speed, "together": together, "memory": memory}[chosen.what](chosen)))
