"""The speed of tuning an encoder on dictionary entries, against sentence-transformers; and of finding hard negatives.

    python tests/benchmarks/exposure.py tuning                                # babelray-mini: overheads matter
    python tests/benchmarks/exposure.py tuning --encoder base --steps 3       # random, of XLM-R base's shape
    python tests/benchmarks/exposure.py tuning --dictionary en-de.tsv
    python tests/benchmarks/exposure.py mining

tuning  pairs per second of `fine_tune` with the contrastive objective, as the expose stage runs it, and of
        sentence-transformers' trainer with its MultipleNegativesRankingLoss: the same encoder, entries, hard negatives,
        batch, loss (softmax, both directions) and optimizer. Both run alternately; the medians are reported. The first
        steps of a run are not timed, so that neither pays for its start. On a busy machine, compare processor time.
mining  seconds to find the hard negatives of 5,000 words among 200,000 from their vectors, by the width of these;
        and to encode all these words with babelray-mini.

Without `--dictionary` (two columns, separated by a tab) entries are words of the starter corpus in forty languages,
paired at random, which is enough to measure speed. Prints a table.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch

from babelray.encoder.load import load_masked_lm, load_tokenizer, locate_encoder
from babelray.objectives.contrastive import Contrastive, ContrastiveConfig
from babelray.report.comparison import markdown
from babelray.storage.location import STARTER
from babelray.training.config import TrainingConfig
from babelray.training.fine_tuning import fine_tune

WARMUP = 3
"""Steps of a run before the measurement: memory is allocated, caches are filled."""
ENTRIES, CANDIDATES = 5000, 200_000
LONGEST = 15
"""The maximum length of a word."""
Clock = Callable[[], None]


@dataclass
class Entries:
    """Training data of one language that consists of a dictionary only."""

    encoder: str
    pairs: tuple[list[str], list[str]]
    languages = ("en", "xx")
    hub = "en"
    seed = 1
    max_tokens = 64

    def __post_init__(self) -> None:
        self.tokenizer = load_tokenizer(self.encoder)

    def dictionary(self, code: str) -> tuple[list[str], list[str]]:
        return self.pairs

    induced_dictionary = parallel = dictionary

    def initial_encoder(self) -> Any:
        return load_masked_lm(self.encoder).base_model.eval().requires_grad_(False)


def starter_words() -> list[str]:
    """The words of the starter corpus in all languages that separate words, in random order."""
    files = sorted((STARTER / "text").iterdir())
    words = {word.strip(".,;:!?()»«") for file in files for word in file.read_text(encoding="utf-8").split()}
    short = sorted(word for word in words if 0 < len(word) <= LONGEST)
    return random.Random(1).sample(short, len(short))


def entries_of(file: str | None) -> tuple[list[str], list[str]]:
    if file is None:
        words = starter_words()
        return words[:ENTRIES], words[ENTRIES : 2 * ENTRIES]
    lines = [line.split("\t") for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return [line[0] for line in lines], [line[1] for line in lines]


def make_base(folder: str) -> None:
    """XLM-R base's layers with random weights, and the tokenizer of babelray-mini."""
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

    tokenizer = load_tokenizer("babelray-mini")
    tokenizer.save_pretrained(folder)
    config = XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=130, pad_token_id=1)
    XLMRobertaForMaskedLM(config).save_pretrained(folder)


def train_babelray(objective: Contrastive, config: TrainingConfig, tick: Clock) -> None:
    fine_tune(load_masked_lm(objective.training_data.encoder), objective, config, lambda *_: tick())


def train_peer(objective: Contrastive, config: TrainingConfig, tick: Clock) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import TrainerCallback

    class Ticks(TrainerCallback):
        def on_step_end(self, *arguments: Any, **more: Any) -> None:
            tick()

    transformer = Transformer(
        locate_encoder(objective.training_data.encoder), max_seq_length=objective.training_data.max_tokens
    )
    model = SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension())], device="cpu")
    sources, targets = objective.pairs["xx"]
    columns: dict[str, list[str]] = {"anchor": sources, "positive": targets}
    hard = [objective.hard_negatives["xx", "forward", source] for source in sources]
    columns |= {f"negative_{n}": list(column) for n, column in enumerate(zip(*hard, strict=True), start=1)}
    loss = MultipleNegativesRankingLoss(
        model, scale=objective.config.scale, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = Arguments(
            folder,
            per_device_train_batch_size=objective.batch_size,
            max_steps=config.steps,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            max_grad_norm=config.clip,
            warmup_steps=config.warmup,
            optim="adamw_torch",
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(model, arguments, train_dataset=Dataset.from_dict(columns), loss=loss)
        trainer.add_callback(Ticks())
        trainer.train()


def timed(train: Callable[..., None], objective: Contrastive, config: TrainingConfig) -> tuple[float, float]:
    """Seconds per step, and seconds of processor time per step."""
    ticks: list[tuple[float, float]] = []
    train(objective, config, lambda: ticks.append((time.perf_counter(), time.process_time())))
    assert len(ticks) == config.steps
    begin, end = ticks[WARMUP - 1], ticks[-1]
    return tuple((b - a) / (config.steps - WARMUP) for a, b in zip(begin, end, strict=True))  # type: ignore[return-value]


def tuning(options: argparse.Namespace) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        if options.encoder == "base":
            make_base(folder)
        training_data = Entries(
            folder if options.encoder == "base" else options.encoder, entries_of(options.dictionary)
        )
        sizes: dict[str, Any] = {"batch_size": options.batch, "hard_negatives": options.hard_negatives}
        contrastive = ContrastiveConfig(pairs="words", special_tokens=True, sampling="epochs", **sizes)
        config = TrainingConfig(
            steps=options.steps + WARMUP, workers=1, learning_rate=2e-5, weight_decay=0.01, objectives=[contrastive]
        )
        objective = Contrastive(contrastive, training_data)  # type: ignore[arg-type]
        objective.start(torch.device("cpu"))
        times: dict[str, list[tuple[float, float]]] = {"Babelray": [], "sentence-transformers": []}
        for repeat in range(options.repeats):
            for name, train in list(zip(times, (train_babelray, train_peer), strict=True))[:: -1 if repeat % 2 else 1]:
                times[name].append(timed(train, objective, config))
    seconds = {name: [median(column) for column in zip(*runs, strict=True)] for name, runs in times.items()}
    rows = []
    for name, own in seconds.items():
        ratios = [peer / value for value, peer in zip(own, seconds["sentence-transformers"], strict=True)]
        rows.append([name, *(f"{options.batch / one:,.0f}" for one in own), *(f"{ratio:.2f}" for ratio in ratios)])
    return [[options.encoder, "pairs per second", "… of processor time", "times as fast", "… by processor time"], *rows]


def mining(options: argparse.Namespace) -> list[list[str]]:
    from babelray.encoder.text_encoder import TextEncoder

    def seconds(run: Callable[[], Any]) -> str:
        start, processor = time.perf_counter(), time.process_time()
        run()
        return f"{time.perf_counter() - start:.1f} ({time.process_time() - processor:.1f})"

    entries = Entries("babelray-mini", entries_of(options.dictionary))
    config = ContrastiveConfig(pairs="words", hard_negatives=options.hard_negatives)
    objective = Contrastive(config, entries)  # type: ignore[arg-type]
    words, queries = starter_words(), sorted({*entries.pairs[0]})
    made = (a[: len(a) // 2] + b for shift in range(1, 30) for a, b in zip(words, words[shift:], strict=False))
    candidates = list(dict.fromkeys([*entries.pairs[1], *words, *made]))[:CANDIDATES]
    assert len(candidates) == CANDIDATES
    rows = []
    for width in (256, 768):
        vectors = [torch.randn(len(texts), width) for texts in (queries, candidates)]
        search = partial(objective._set_nearest, "xx", "forward", queries, vectors[0], candidates, vectors[1])
        rows.append([f"search, vectors of {width}", seconds(search)])
    encoder = TextEncoder.from_pretrained("babelray-mini")
    rows.append(["encoding all words, babelray-mini", seconds(lambda: encoder.encode([*queries, *candidates], "all"))])
    return [[f"{len(queries):,} words, {len(candidates):,} candidates", "seconds (of processor time)"], *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tuning", "mining"])
    parser.add_argument("--encoder", default="babelray-mini", help="a folder, or `base` for a random one of that shape")
    parser.add_argument("--dictionary")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--hard-negatives", type=int, default=10)
    parser.add_argument("--steps", type=int, default=12, help="that are timed in a run")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(markdown((tuning if options.what == "tuning" else mining)(options)))


if __name__ == "__main__":
    main()
