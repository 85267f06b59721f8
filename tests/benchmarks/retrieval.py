"""Speed of sentence retrieval. Prints one line of JSON.

    python tests/benchmarks/retrieval.py --encoder DIR
    python tests/benchmarks/retrieval.py --encoder DIR --languages 3 --sentences 200 --scoring margin

The whole benchmark (tokenizing, forward pass, pooling, scores of all pairs in both directions) against the bare forward
pass of the same encoder over the same batches, alternately, as medians. `share` is the time of the forward pass divided
by that of the benchmark, `scoring_seconds` the time of the scores of all pairs. On a busy machine use
`processor_share`, the same ratio of processor time. The hub's sentences are the same for all languages, so that they
are encoded once: this is the smallest possible forward pass per language.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from babelray.encoder.text_encoder import Pooling, TextEncoder
from babelray.evaluation.tatoeba import sentence_retrieval
from babelray.languages import LANGUAGES
from babelray.metrics.retrieval import Scoring, retrieve
from support.starter import starter_lines
from support.timing import alternate, forward_pass, recorded_batches

Pairs = list[tuple[str, list[str], list[str]]]


def starter_pairs(languages: int, count: int) -> Pairs:
    """`count` different sentences per language: those of the starter corpus, then the same with a number."""

    def sentences(code: str) -> list[str]:
        lines = [line for line in starter_lines(code) if line]
        numbered = ((line, number) for number in range(count // len(lines) + 1) for line in lines)
        return [f"{line} {number}" if number else line for line, number in numbered][:count]

    codes = [code for code in LANGUAGES if code != "en"][:languages]
    hub = sentences("en")
    return [(code, sentences(code), hub) for code in codes]


def benchmark(encoder: TextEncoder, pairs: Pairs, scoring: Scoring, pooling: Pooling, rounds: int) -> dict[str, object]:
    def task() -> object:
        return sentence_retrieval(encoder, pairs, scoring, pooling)

    batches = recorded_batches(encoder, task)
    width = encoder.encode(["a"]).shape[1]
    sides = torch.randn(2, len(pairs[0][1]), width)

    def scores() -> None:
        for _ in pairs:
            retrieve(sides[0], sides[1], scoring, (range(sides.shape[1]), range(sides.shape[1])))

    times = alternate({"forward": forward_pass(encoder, batches), "task": task, "scoring": scores}, rounds)
    return {
        "benchmark": "sentence retrieval",
        "languages": len(pairs),
        "sentences": sides.shape[1],
        "subwords": int(sum(mask_BT.sum() for _, mask_BT in batches)),
        "width": width,
        "scoring": scoring,
        "pooling": pooling,
        "threads": torch.get_num_threads(),
        **{f"{name}_seconds": round(timing.clock, 3) for name, timing in times.items()},
        "share": round(times["forward"].clock / times["task"].clock, 3),
        "processor_share": round(times["forward"].processor / times["task"].processor, 3),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True, metavar="DIR")
    parser.add_argument("--layer", type=int, default=-1)
    parser.add_argument("--languages", type=int, default=38)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--scoring", choices=get_args(Scoring), default="margin")
    parser.add_argument("--pooling", choices=get_args(Pooling), default="mean")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    encoder = TextEncoder.from_pretrained(options.encoder, options.layer, device=options.device)
    texts = starter_pairs(options.languages, options.sentences)
    print(json.dumps(benchmark(encoder, texts, options.scoring, options.pooling, options.rounds)))
