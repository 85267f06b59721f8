"""How fast sentence retrieval is. Prints one line of JSON.

    python tests/benchmarks/retrieval.py --encoder DIR
    python tests/benchmarks/retrieval.py --encoder DIR --languages 3 --sentences 200 --scoring margin

The whole task (tokenizing, forward pass, pooling, scores of all pairs in both directions) against the bare forward pass
of the same encoder over the same batches, by turns; the medians count. `share` is the time of the forward pass over
that of the task, `scoring_seconds` what the scores of all pairs take of it. On a machine that has other work to do, go
by `processor_share`, the same of processor time. The hub's sentences are the same for all languages, so that they are
encoded once: that leaves the least forward pass for each language to be scored.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch
from torch import Tensor

from babelray.encoder.text_encoder import Pooling, TextEncoder
from babelray.evaluation.retrieval import Scoring, retrieval_task, retrieve
from babelray.languages import LANGUAGES
from babelray.storage.place import STARTER

Pairs = list[tuple[str, list[str], list[str]]]


def starter_pairs(languages: int, count: int) -> Pairs:
    """So many different sentences of each language: those of the starter corpus, then again with a number."""

    def sentences(code: str) -> list[str]:
        lines = (STARTER / "text" / f"{code}.txt").read_text(encoding="utf-8").split("\n")
        lines = [line for line in lines if line]
        turns = ((line, turn) for turn in range(count // len(lines) + 1) for line in lines)
        return [f"{line} {turn}" if turn else line for line, turn in turns][:count]

    codes = [code for code in LANGUAGES if code != "en"][:languages]
    hub = sentences("en")
    return [(code, sentences(code), hub) for code in codes]


def recorded(encoder: TextEncoder, run: Callable[[], object]) -> list[tuple[Tensor, Tensor]]:
    """The batches that the encoder reads in a run."""
    read, batches = encoder.read, list[tuple[Tensor, Tensor]]()

    def note(ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        batches.append((ids_BT, mask_BT))
        return read(ids_BT, mask_BT)

    encoder.read = note
    run()
    encoder.read = read
    return batches


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and of processor time."""
    start, start_busy = time.perf_counter(), time.process_time()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, time.process_time() - start_busy


def measure(encoder: TextEncoder, pairs: Pairs, scoring: Scoring, pooling: Pooling, turns: int) -> dict[str, object]:
    def task() -> object:
        return retrieval_task(encoder, pairs, scoring, pooling)

    batches = recorded(encoder, task)
    width = encoder.sentences(["a"]).shape[1]
    sides = torch.randn(2, len(pairs[0][1]), width)

    def bare() -> None:
        with torch.no_grad():
            for ids_BT, mask_BT in batches:
                encoder.read(ids_BT, mask_BT)

    def scores() -> None:
        for _ in pairs:
            retrieve(sides[0], sides[1], scoring, (range(sides.shape[1]), range(sides.shape[1])))

    runs: dict[str, Callable[[], object]] = {"forward": bare, "task": task, "scoring": scores}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            times[name].append(seconds(run))
    medians, busy = ({name: median(turn[i] for turn in turns) for name, turns in times.items()} for i in (0, 1))
    return {
        "benchmark": "sentence retrieval",
        "languages": len(pairs),
        "sentences": sides.shape[1],
        "subwords": int(sum(mask_BT.sum() for _, mask_BT in batches)),
        "width": width,
        "scoring": scoring,
        "pooling": pooling,
        "threads": torch.get_num_threads(),
        **{f"{name}_seconds": round(value, 3) for name, value in medians.items()},
        "share": round(medians["forward"] / medians["task"], 3),
        "processor_share": round(busy["forward"] / busy["task"], 3),
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
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    opened = TextEncoder.open(options.encoder, options.layer, device=options.device)
    texts = starter_pairs(options.languages, options.sentences)
    print(json.dumps(measure(opened, texts, options.scoring, options.pooling, options.turns)))
