"""How fast static vectors are extracted. Prints one line of JSON for each measurement.

    python tests/benchmarks/extraction.py speed                          # an encoder of XLM-R base's shape
    python tests/benchmarks/extraction.py speed --width 128 --layers 4 --layer 3
    python tests/benchmarks/extraction.py together

speed     words per second of the extraction (tokenizing, forward pass, contexts, learning) as a share of the bare
          forward pass of the same encoder, cut at the same layer, over the same batches; and for comparison the rate of
          the forward pass through all layers, and in the order of the text instead of batches of similar length
together  two languages at once on two workers, against one after the other on one worker with both cores
memory    the largest resident memory while extracting a corpus, and one twice as large
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch
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


def speed(arguments: argparse.Namespace) -> dict[str, object]:
    sentences = starter_sentences(arguments.sentences)
    vocabulary = Counter(token.lower() for sentence in sentences for token in sentence.tokens)
    tokenizer = train_tokenizer([s.text for s in sentences], 6000, 512)
    shape = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=arguments.width,
        num_hidden_layers=arguments.layers,
        num_attention_heads=max(1, arguments.width // 64),
        intermediate_size=4 * arguments.width,
        max_position_embeddings=514,
    )

    def encoder() -> XLMRobertaModel:
        torch.manual_seed(0)
        return XLMRobertaModel(shape, add_pooling_layer=False).eval()

    config = ExtractConfig.model_validate({"method": arguments.method, "x2static": {"min_steps": 1}})
    reader = LayerReader(encoder(), [arguments.layer])
    made = LanguageExtraction(config, reader, tokenizer, vocabulary, arguments.layer, seed=1)
    options = (sentences, tokenizer, made.position, made.longest, config.batch_tokens)
    counts: Counter[str] = Counter()
    bucketed = list(occurrences.batches(*options, counts))
    bucketing, occurrences.token_budget_batches = occurrences.token_budget_batches, in_order
    unsorted = list(occurrences.batches(*options, Counter()))
    occurrences.token_budget_batches = bucketing

    def extract() -> None:
        block = made.block(0, made.prepare(sentences, Counter()))
        made.combine(lambda: [block], arguments.layer)

    whole = LayerReader(encoder(), [arguments.layers])
    runs: dict[str, Callable[[], object]] = {
        "bare": lambda: forward(reader, bucketed),
        "extraction": extract,
        "all_layers": lambda: forward(whole, bucketed),
        "without_bucketing": lambda: forward(reader, unsorted),
    }
    forward(reader, bucketed[:1])
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "together", "memory"])
    parser.add_argument("--method", choices=["x2static", "aggregate"], default="x2static")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--layer", type=int, default=6)
    parser.add_argument("--sentences", type=int, default=1500)
    chosen = parser.parse_args()
    print(json.dumps({"speed": speed}[chosen.what](chosen)))
