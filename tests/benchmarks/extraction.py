"""Speed and memory of extraction. Prints one line of JSON per measurement.

    python tests/benchmarks/extraction.py speed                          # an encoder of XLM-R base's shape
    python tests/benchmarks/extraction.py speed --width 128 --layers 4 --layer 3
    python tests/benchmarks/extraction.py together

speed     words per second of the extraction (tokenizing, forward pass, contexts, learning) as a share of the bare
          forward pass of the same encoder, cut at the same layer, over the same batches; for comparison the rates of
          the forward pass through all layers, and of batches in the order of the text instead of by length
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
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from safetensors.torch import load_file, save_file
from transformers import XLMRobertaConfig, XLMRobertaModel

from babelray.encoder.layers import LayerReader
from babelray.encoder.scratch import train_tokenizer
from babelray.extraction import occurrences
from babelray.extraction.language import LanguageExtraction
from babelray.extraction.method import EXTRACTION_METHODS, PreparedBlock
from babelray.extraction.occurrences import Batch, Sentence
from babelray.text.segment import Segmenter
from support.starter import starter_lines
from support.timing import alternate

ROUNDS = 3
LANGUAGES = ("en", "de", "ru", "hi", "zh", "sw")


def starter_sentences(count: int) -> list[Sentence]:
    texts = [(code, line) for code in LANGUAGES for line in starter_lines(code) if line]
    texts = (texts * (count // len(texts) + 1))[:count]
    return [Sentence(text, Segmenter.for_language(code).tokens(text)) for code, text in texts]


def in_order(lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Batches of the same budget, in the order of the text."""
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


def make(arguments: argparse.Namespace, sentences: list[Sentence]) -> tuple[LanguageExtraction, XLMRobertaModel]:
    """A language's extraction with an encoder of the requested shape, and the same encoder with all layers."""
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
    uncut = XLMRobertaModel(shape, add_pooling_layer=False).eval()
    reader = LayerReader(copy.deepcopy(uncut), [arguments.layer])
    settings = {"min_steps": 1} if arguments.method == "x2static" else {}
    method = EXTRACTION_METHODS.parse({"method": arguments.method, **settings})
    return LanguageExtraction(method, reader, tokenizer, vocabulary, arguments.layer, seed=1), uncut


def extract(extraction: LanguageExtraction, sentences: list[Sentence], folder: Path | None = None) -> None:
    """Extract as a worker does: block by block, then the vectors; with a folder, blocks are stored there."""
    blocks: list[dict[str, torch.Tensor]] = []
    size = extraction.method.block_sentences if folder is None else 500
    for number, start in enumerate(range(0, len(sentences), size)):
        batches = extraction.make_batches(sentences[start : start + size], Counter())
        block = extraction.encode(PreparedBlock(number, start, size, batches))
        if folder is None:
            blocks.append(block)
        else:
            save_file(block, folder / f"{number:06}.safetensors")
    extraction.combine(lambda: map(load_file, sorted(folder.iterdir())) if folder else blocks, extraction.layer)


def speed(arguments: argparse.Namespace) -> dict[str, object]:
    sentences = starter_sentences(arguments.sentences)
    extraction, uncut = make(arguments, sentences)
    options = (sentences, extraction.tokenizer, extraction.position, extraction.longest, extraction.method.batch_tokens)
    counts: Counter[str] = Counter()
    bucketed = list(occurrences.make_batches(*options, counts))
    bucketing, occurrences.token_budget_batches = occurrences.token_budget_batches, in_order
    unsorted = list(occurrences.make_batches(*options, Counter()))
    occurrences.token_budget_batches = bucketing

    all_layers = LayerReader(uncut, [arguments.layers])
    runs: dict[str, Callable[[], object]] = {
        "bare": lambda: forward(extraction.reader, bucketed),
        "extraction": lambda: extract(extraction, sentences),
        "all_layers": lambda: forward(all_layers, bucketed),
        "without_bucketing": lambda: forward(extraction.reader, unsorted),
    }
    forward(extraction.reader, bucketed[:1])
    times = alternate(runs, ROUNDS)
    rates = {name: counts["words"] / timing.clock for name, timing in times.items()}
    return {
        "benchmark": "extraction speed",
        "method": arguments.method,
        "encoder": f"{arguments.layers} layers of {arguments.width}, read at {arguments.layer}",
        "words": counts["words"],
        **{f"{name}_words_per_second": round(rate) for name, rate in rates.items()},
        "share": round(rates["extraction"] / rates["bare"], 3),
    }


def extract_languages(arguments: argparse.Namespace, threads: int, languages: int, ready: Any, go: Any) -> None:
    """Extract languages, one after the other, once `go` is set."""
    torch.set_num_threads(threads)
    sentences = starter_sentences(arguments.sentences)
    extraction, _ = make(arguments, sentences)
    forward(extraction.reader, extraction.make_batches(sentences[:50], Counter()))
    ready.release()
    go.wait()
    for _ in range(languages):
        extract(extraction, sentences)


def together(arguments: argparse.Namespace) -> dict[str, object]:
    context = multiprocessing.get_context("spawn")
    seconds: dict[str, list[float]] = {"at_once": [], "one_after_the_other": []}
    for _ in range(ROUNDS):
        for name, processes, threads, languages in (("at_once", 2, 1, 1), ("one_after_the_other", 1, 2, 2)):
            ready, go = context.Semaphore(0), context.Event()
            running = [
                context.Process(target=extract_languages, args=(arguments, threads, languages, ready, go))
                for _ in range(processes)
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


def measure_memory(arguments: argparse.Namespace, sentences: int, peak: Any) -> None:
    text = starter_sentences(sentences)
    extraction, _ = make(arguments, text)
    with tempfile.TemporaryDirectory(prefix="babelray-benchmark-") as folder:
        extract(extraction, text, Path(folder))
    peak.value = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def memory(arguments: argparse.Namespace) -> dict[str, object]:
    context = multiprocessing.get_context("spawn")
    peaks = []
    for sentences in (arguments.sentences, 2 * arguments.sentences, 4 * arguments.sentences):
        peak = context.Value("d", 0.0)
        process = context.Process(target=measure_memory, args=(arguments, sentences, peak))
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
