"""Continued pre-training of an encoder of XLM-R base's size with every objective, under ZeRO 2 on two workers.

    python tests/benchmarks/full_size.py --tokenizer FOLDER [--storage FOLDER]

12 layers, width 768, 250,002 subwords, random weights; FOLDER contains XLM-R's tokenizer.json, plain or gzip. The run
is killed after its first checkpoint, started again with the same command, and exported. Prints one line of JSON: the
peak memory of all processes of the run together, seconds per step, and whether the result loads and differs from the
initial encoder.
Needs about 17 GB of memory, 15 GB of disk and a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import command

RECIPE = """
name: full-size
languages: [en, de]
storage: {storage}
corpus:
  text: {{path: "starter:text/{{lang}}.txt", format: sentences}}
  parallel: "starter:text/{{lang}}.txt"
  dictionary: "starter:words/{{lang}}.txt"
  cleaning: {{min_tokens: 3}}
encoder: {{path: {encoder}}}
extract: {{method: isolated, layer: 6}}
pretrain:
  steps: {steps}
  checkpoint_every: 2
  log_every: 1
  workers: 2
  accumulate: 2
  zero_stage: 2
  keep: 1
  objectives:
    - {{kind: mlm, batch_size: 8}}
    - {{kind: tlm, batch_size: 4}}
    - {{kind: static-mse, batch_size: 32}}
    - {{kind: static-dcca, batch_size: 256}}
    - {{kind: transport, batch_size: 8}}
    - {{kind: word-l2, batch_size: 8}}
    - {{kind: contrastive, batch_size: 16}}
    - {{kind: contrastive, name: words, pairs: words, batch_size: 32}}
"""


def make_encoder(tokenizer: str, folder: Path) -> None:
    """Random weights of XLM-R base's shape, with its tokenizer."""
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForMaskedLM

    torch.manual_seed(0)
    packed, plain = (Path(tokenizer) / name for name in ("tokenizer.json.gz", "tokenizer.json"))
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    marks = {"bos": "<s>", "cls": "<s>", "pad": "<pad>", "eos": "</s>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
    found = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text.decode()),
        model_max_length=512,
        **{f"{name}_token": mark for name, mark in marks.items()},
    )
    config = XLMRobertaConfig(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5)
    XLMRobertaForMaskedLM(config).save_pretrained(folder)
    found.save_pretrained(folder)


class Memory:
    """The peak memory of a process and all its descendants together; shared memory counts once."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.peak = process, 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        import psutil

        while self.process.poll() is None:
            total = 0
            with contextlib.suppress(psutil.Error):
                command_itself = psutil.Process(self.process.pid)
                for one in [command_itself, *command_itself.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error, OSError):
                        total += one.memory_full_info().pss
            self.peak = max(self.peak, total)
            time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="folder of XLM-R's tokenizer")
    parser.add_argument("--storage", help="where artifacts go; a temporary folder by default")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    folder = Path(options.storage or tempfile.mkdtemp(prefix="babelray-full-size-")).resolve()
    encoder, recipe = folder / "xlmr-base-random", folder / "recipe.yaml"
    if not encoder.exists():
        make_encoder(options.tokenizer, encoder)
    recipe.write_text(RECIPE.format(storage=folder / "runs", encoder=encoder, steps=options.steps))

    first = command.start("pretrain", str(recipe))
    memory = Memory(first)
    while not list(folder.glob("runs/pretrain/*.partial/work/workers/checkpoint_*/state.json")):
        if first.poll() is not None:
            sys.exit(first.communicate()[0])
        time.sleep(0.5)
    time.sleep(2)
    command.kill_all(first)
    again = command.start("pretrain", str(recipe))
    memory_again = Memory(again)
    output, _ = again.communicate()
    if again.returncode:
        sys.exit(output)

    from safetensors.torch import load_file
    from transformers import AutoModel

    (made,) = (path for path in (folder / "runs/pretrain").iterdir() if not path.name.endswith(".partial"))
    curves = [row["values"] for row in json.loads((made / "curves.json").read_text())]
    model = AutoModel.from_pretrained(made / "encoder")
    name = "roberta.encoder.layer.0.output.dense.weight"
    start_weight, end_weight = (load_file(f / "model.safetensors")[name] for f in (encoder, made / "encoder"))
    found = {
        "benchmark": "12 layers of 768, 250,002 subwords, every objective, ZeRO 2 on two workers",
        "peak_gigabytes": round(max(memory.peak, memory_again.peak) / 2**30, 1),
        "seconds_per_step": [round(values["speed/seconds_per_step"], 1) for values in curves],
        "losses": {k.removeprefix("loss/"): round(v, 3) for k, v in curves[-1].items() if k.startswith("loss/")},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "weights_changed": not start_weight.equal(end_weight),
    }
    print(json.dumps(found))
    if options.storage is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
