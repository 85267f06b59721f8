"""Speed and quality of word alignment, against simalign. Prints one line of JSON per measurement.

    python tests/benchmarks/word_alignment.py --encoder DIR --data FOLDER

FOLDER holds gold data as `name.src-tgt` (`source ||| target`) and `name.gold` (links, which count from 1 unless
`--zero-based`). If simalign is installed (`pip install simalign==0.4 networkx`), it aligns the same sentence pairs with
the same encoder at the same layer, each method separately, and the line contains the number of pairs with other links,
and the number of pairs on which simalign fails.
`itermax` is the paper's, `itermax-package` stops early as simalign's own does. `--pairs` is the number of pairs per
file, evenly spread, since the package's `match` needs a second for a long pair; 0 means all. `--file`, `--methods` and
`--levels` select a part of the measurements.

Both run alternately, and medians are reported. On a busy machine compare the seconds of processor time. `forward_share`
is the share of the bare forward pass over the same batches in our processor time; `most_possible` is simalign's
processor time divided by that of the forward pass: the speedup if all other work cost nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from babelray.encoder.load import resolve_layer
from babelray.encoder.text_encoder import TextEncoder
from babelray.evaluation.word_alignment import GoldPair, align_pairs, alignment_scores, itermax, read_pharaoh
from babelray.lexicon.statistical_alignment import Links
from babelray.storage import Location
from support.timing import alternate, forward_pass, recorded_batches

try:
    from simalign import SentenceAligner
except ImportError:
    SentenceAligner = None

ROUNDS = 3
LEVELS = {"subwords": "bpe", "words": "word"}
METHODS: dict[str, Any] = {
    "argmax": ("argmax", "a", "inter"),
    "itermax": ("itermax", "i", "itermax"),
    "itermax-package": (partial(itermax, as_package=True), "i", "itermax"),
    "match": ("match", "m", "mwmf"),
}
"""For each method, Babelray's algorithm, and simalign's letter and name."""
FAILED: Links = [(-1, -1)]
"""Replaces the links of a pair on which simalign fails; no gold pair has this link."""


def spread(gold: list[GoldPair], count: int) -> list[GoldPair]:
    return gold[:: -(-len(gold) // count)] if count else gold


def align(encoder: TextEncoder, pairs: list[tuple[list[str], list[str]]], method: Any, level: Any) -> list[Links]:
    return align_pairs(encoder, pairs, method, level).links


def align_with_simalign(aligner: Any, gold: list[GoldPair], letter: str, name: str) -> list[Links]:
    aligner.matching_methods = {"a": ["inter"], "i": ["itermax"], "m": ["mwmf"]}[letter]
    links = []
    for pair in gold:
        try:
            links.append(aligner.get_word_aligns(pair.source, pair.target)[name])
        except (ValueError, IndexError):  # a word without subwords, a sentence that is too long
            links.append(FAILED)
    return links


def measurements(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    layer = resolve_layer(arguments.layer, AutoConfig.from_pretrained(arguments.encoder).num_hidden_layers)
    encoder = TextEncoder.from_pretrained(arguments.encoder, layer)
    files = {}
    for file in sorted(Path(arguments.data).glob(f"{arguments.file}.src-tgt")):
        locations = Location.parse(file), Location.parse(file.with_suffix(".gold"))
        files[file.stem] = spread(read_pharaoh(*locations, one_based=not arguments.zero_based), arguments.pairs)
    for level in arguments.levels:
        simalign = SentenceAligner and SentenceAligner(arguments.encoder, token_type=LEVELS[level], layer=layer)
        for name, gold in files.items():
            pairs = [(pair.source, pair.target) for pair in gold]
            batches = recorded_batches(encoder, partial(align, encoder, pairs, "argmax", "words"))
            forward = forward_pass(encoder, batches)
            for method in arguments.methods:
                function, letter, key = METHODS[method]
                runs: dict[str, Callable[[], Any]] = {
                    "ours": partial(align, encoder, pairs, function, level),
                    "forward": forward,
                }
                if simalign:
                    runs["simalign"] = partial(align_with_simalign, simalign, gold, letter, key)
                times = alternate(runs, arguments.rounds, warm_up=1)
                ours, forward_time = times["ours"], times["forward"]
                line: dict[str, object] = {
                    "benchmark": "word alignment",
                    "data": name,
                    "level": level,
                    "method": method,
                    "layer": layer,
                    "pairs": len(pairs),
                    "threads": torch.get_num_threads(),
                    "aer": round(alignment_scores(ours.result, gold)["aer"], 4),
                    "pairs_per_second": round(len(pairs) / ours.clock, 1),
                    "forward_share": round(forward_time.processor / ours.processor, 3),
                }
                if simalign:
                    theirs = times["simalign"]
                    different = sum(a != b for a, b in zip(ours.result, theirs.result, strict=True) if b is not FAILED)
                    line |= {
                        "simalign_aer": round(alignment_scores(theirs.result, gold)["aer"], 4),
                        "simalign_pairs_per_second": round(len(pairs) / theirs.clock, 1),
                        "times_as_fast": round(theirs.clock / ours.clock, 1),
                        "times_less_processor_time": round(theirs.processor / ours.processor, 1),
                        "most_possible": round(theirs.processor / forward_time.processor, 1),
                        "same": not different,
                        "different_pairs": different,
                        "simalign_failed_pairs": sum(links is FAILED for links in theirs.result),
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
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--zero-based", action="store_true")
    logging.disable(logging.INFO)
    transformers_logging.set_verbosity_error()
    for measurement in measurements(parser.parse_args()):
        print(json.dumps(measurement), flush=True)
