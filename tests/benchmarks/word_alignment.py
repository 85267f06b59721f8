"""How fast and how well an encoder aligns words, against simalign. Prints one line of JSON for each measurement.

    python tests/benchmarks/word_alignment.py --encoder DIR --data FOLDER

FOLDER holds gold data as `name.src-tgt` (`source ||| target`) and `name.gold` (links, which count from 1 unless
`--zero-based`). If simalign is installed (`pip install simalign==0.4 networkx`), it aligns the same sentence pairs with
the same encoder at the same layer, each method for itself, and the line says how many pairs come out otherwise, and on
how many simalign fails.
`itermax` is the paper's, `itermax-package` stops early as simalign's own does. `--pairs` takes so many of each file,
spread over it, since the package's `match` needs a second for a long pair; 0 takes all. `--file`, `--methods` and
`--levels` measure less.

Both take turns, and the medians count. On a machine that has other work to do, compare the seconds of processor time.
`forward_share` is what the bare forward pass over the same batches takes of our processor time, `most_possible` how
many times less than simalign's that is: what we could reach with these batches if all else cost nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch
from torch import Tensor
from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from babelray.encoder.load import resolve_layer
from babelray.encoder.text_encoder import TextEncoder
from babelray.evaluation.word_alignment import GoldPair, align_pairs, alignment_scores, itermax, read_pharaoh
from babelray.lexicon.word_alignment import Links
from babelray.storage import Place

try:
    from simalign import SentenceAligner
except ImportError:
    SentenceAligner = None

TURNS = 3
LEVELS = {"subwords": "bpe", "words": "word"}
METHODS: dict[str, Any] = {
    "argmax": ("argmax", "a", "inter"),
    "itermax": ("itermax", "i", "itermax"),
    "itermax-package": (partial(itermax, as_package=True), "i", "itermax"),
    "match": ("match", "m", "mwmf"),
}
"""Of each method ours, simalign's letter and simalign's name."""
FAILED: Links = [(-1, -1)]
"""Stands for the links of a pair that simalign fails on; it is no link of any gold pair."""


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives, and the seconds that it takes: by the clock, and of processor time."""
    start, start_busy = time.perf_counter(), time.process_time()
    found = run()
    return found, time.perf_counter() - start, time.process_time() - start_busy


def by_turns(runs: dict[str, Callable[[], Any]], turns: int) -> dict[str, tuple[Any, float, float]]:
    """What each gives in the last turn, and the medians of its seconds. A first turn that warms up does not count."""
    table = [{name: timed(run) for name, run in runs.items()} for _ in range(turns + 1)][1:]
    return {
        name: (table[-1][name][0], median(row[name][1] for row in table), median(row[name][2] for row in table))
        for name in runs
    }


def spread(gold: list[GoldPair], count: int) -> list[GoldPair]:
    return gold[:: -(-len(gold) // count)] if count else gold


def align(encoder: TextEncoder, pairs: list[tuple[list[str], list[str]]], method: Any, level: Any) -> list[Links]:
    return align_pairs(encoder, pairs, method, level).links


def forward_pass(encoder: TextEncoder, pairs: list[tuple[list[str], list[str]]]) -> Callable[[], None]:
    """The bare forward pass over the batches that the encoder reads of these pairs."""
    read, batches = encoder.read, list[tuple[Tensor, Tensor]]()

    def note(ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        batches.append((ids_BT, mask_BT))
        return read(ids_BT, mask_BT)

    encoder.read = note
    align(encoder, pairs, "argmax", "words")
    encoder.read = read

    def run() -> None:
        with torch.no_grad():
            for ids_BT, mask_BT in batches:
                read(ids_BT, mask_BT)

    return run


def package(theirs: Any, gold: list[GoldPair], letter: str, name: str) -> list[Links]:
    theirs.matching_methods = {"a": ["inter"], "i": ["itermax"], "m": ["mwmf"]}[letter]
    found = []
    for pair in gold:
        try:
            found.append(theirs.get_word_aligns(pair.source, pair.target)[name])
        except (ValueError, IndexError):  # a word without subwords, a sentence that is too long
            found.append(FAILED)
    return found


def measurements(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    layer = resolve_layer(arguments.layer, AutoConfig.from_pretrained(arguments.encoder).num_hidden_layers)
    encoder = TextEncoder.open(arguments.encoder, layer)
    files = {}
    for file in sorted(Path(arguments.data).glob(f"{arguments.file}.src-tgt")):
        places = Place.parse(file), Place.parse(file.with_suffix(".gold"))
        files[file.stem] = spread(read_pharaoh(*places, one_based=not arguments.zero_based), arguments.pairs)
    for level in arguments.levels:
        theirs = SentenceAligner and SentenceAligner(arguments.encoder, token_type=LEVELS[level], layer=layer)
        for name, gold in files.items():
            pairs = [(pair.source, pair.target) for pair in gold]
            forward = forward_pass(encoder, pairs)
            for method in arguments.methods:
                ours, letter, key = METHODS[method]
                runs: dict[str, Callable[[], Any]] = {
                    "ours": partial(align, encoder, pairs, ours, level),
                    "forward": forward,
                }
                if theirs:
                    runs["simalign"] = partial(package, theirs, gold, letter, key)
                times = by_turns(runs, arguments.turns)
                found, seconds, busy = times["ours"]
                line: dict[str, object] = {
                    "benchmark": "word alignment",
                    "data": name,
                    "level": level,
                    "method": method,
                    "layer": layer,
                    "pairs": len(pairs),
                    "threads": torch.get_num_threads(),
                    "aer": round(alignment_scores(found, gold)["aer"], 4),
                    "pairs_per_second": round(len(pairs) / seconds, 1),
                    "forward_share": round(times["forward"][2] / busy, 3),
                }
                if theirs:
                    expected, their_seconds, their_busy = times["simalign"]
                    different = sum(a != b for a, b in zip(found, expected, strict=True) if b is not FAILED)
                    line |= {
                        "simalign_aer": round(alignment_scores(expected, gold)["aer"], 4),
                        "simalign_pairs_per_second": round(len(pairs) / their_seconds, 1),
                        "times_as_fast": round(their_seconds / seconds, 1),
                        "times_less_processor_time": round(their_busy / busy, 1),
                        "most_possible": round(their_busy / times["forward"][2], 1),
                        "same": not different,
                        "different_pairs": different,
                        "simalign_failed_pairs": sum(links is FAILED for links in expected),
                    }
                yield line


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--layer", type=int, default=-1)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--file", default="*", metavar="NAME")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=[*LEVELS])
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--zero-based", action="store_true")
    logging.disable(logging.INFO)
    transformers_logging.set_verbosity_error()
    for measurement in measurements(parser.parse_args()):
        print(json.dumps(measurement), flush=True)
