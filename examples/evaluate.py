"""Score encoders on a benchmark, and test whether their difference is significant.

    python examples/evaluate.py                            # babelray-mini and random weights, 20 s
    python examples/evaluate.py FIRST SECOND DATA          # two encoders on files of the Tatoeba benchmark

Without arguments the data are the 242 shipped sentences of six languages, written as the files of the Tatoeba
benchmark. An encoder with the same architecture and random weights shows what spelling alone achieves.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

import babelray as br

LANGUAGES = ("de", "es", "fr", "ru", "sw", "zh")


def shipped_benchmark(folder: Path) -> Path:
    """The shipped sentences as `test.de-en.de` and `test.de-en.en`, one per line, for each language."""
    texts = {
        language: (files("babelray") / f"starter/text/{language}.txt").read_text(encoding="utf-8").split("\n")
        for language in ("en", *LANGUAGES)
    }
    folder.mkdir()
    for language in LANGUAGES:
        for side in (language, "en"):
            lines = [line for line in texts[side] if line]
            (folder / f"test.{language}-en.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def random_encoder(folder: Path) -> Path:
    torch.manual_seed(1)
    with as_file(files("babelray") / "mini") as mini:
        AutoModel.from_config(AutoConfig.from_pretrained(mini)).save_pretrained(folder)
        AutoTokenizer.from_pretrained(mini).save_pretrained(folder)
    return folder


def main() -> None:
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        if len(sys.argv) > 3:
            first, second, data = sys.argv[1:4]
        else:
            first, second = str(random_encoder(Path(temporary, "random"))), "babelray-mini"
            data = str(shipped_benchmark(Path(temporary, "tatoeba")))
        results = [br.evaluate(encoder, "tatoeba", data, progress=False) for encoder in (first, second)]
        for result in results:
            print(result, end="\n\n")
        print(br.compare(*results))


if __name__ == "__main__":
    main()
