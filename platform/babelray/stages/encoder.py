"""The encoder stage: the encoder that a run starts from, as an artifact that every node can read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.encoder.config import EncoderConfig
from babelray.objectives.objective import language_shares
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.stages.pretrain import train_encoder
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from babelray.recipe import Recipe


class Settings(Config):
    languages: list[str]
    hub: str
    seed: int
    encoder: EncoderConfig


class EncoderStage(Stage[Settings]):
    """Leaves `encoder/`: a copy of an encoder that exists, or a small one trained on the run's own corpus."""

    name = "encoder"
    needs = ("corpus",)

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, encoder=recipe.encoder)

    def sources(self, settings: Settings) -> list[Place]:
        path = settings.encoder.path
        if path is None or not (path.startswith("s3://") or os.path.isdir(path)):
            return []
        return [Place.parse(path) / name for name in Place.parse(path).files()]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        scratch = settings.encoder.scratch
        if scratch is None:
            copied = run_tasks([Task("copy", _copy, (settings.encoder.path, job.out))], job.progress, "encoder")
            return copied["copy"]
        start = job.out / "start"
        run_tasks([Task("tokenizer", _make, (settings, job.source("corpus"), start))], job.progress, "tokenizer")
        seed = settings.seed if scratch.training.seed is None else scratch.training.seed
        training = TrainingSettings(
            languages=settings.languages, hub=settings.hub, seed=seed, training=scratch.training
        )
        metrics = train_encoder(job, training, start, None)
        start.delete()
        return metrics


def _copy(path: str, out: Place) -> dict[str, Any]:
    from babelray.encoder.load import load_masked_lm, load_tokenizer

    with Place.parse(path).local_input() if path.startswith("s3://") else _as_it_is(path) as source:
        tokenizer, model = load_tokenizer(str(source)), load_masked_lm(str(source))
    with (out / "encoder").local_output() as folder:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return {"parameters": model.num_parameters()}


def _as_it_is(path: str) -> Any:
    import contextlib

    return contextlib.nullcontext(path)


def _make(settings: Settings, corpus: Place, start: Place) -> None:
    """A tokenizer trained on the corpus, and an encoder of random weights that fits it."""
    import numpy as np

    from babelray.encoder.scratch import random_encoder, train_tokenizer
    from babelray.text.corpus import blocks, read_sentences

    scratch = settings.encoder.scratch
    assert scratch is not None
    if (start / "config.json").exists():
        return
    sizes = [sum(block.count for block in blocks(corpus, code, 10**9)) for code in settings.languages]
    wanted = tokenizer_sample(sizes, scratch.tokenizer_sentences, scratch.tokenizer_temperature)
    texts = (
        text
        for code, size, count in zip(settings.languages, sizes, wanted, strict=True)
        for text in read_sentences(corpus, code)["text"].take(np.linspace(0, size - 1, count).astype(int)).to_pylist()
    )
    tokenizer = train_tokenizer(texts, scratch.vocabulary, scratch.max_tokens, scratch.byte_fallback)
    model = random_encoder(scratch, len(tokenizer), settings.seed)
    with start.local_output() as folder:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)


def tokenizer_sample(sizes: list[int], total: int, temperature: float) -> list[int]:
    """How many sentences of each language make the tokenizer: all if there are few, else by temperature.

    >>> tokenizer_sample([900, 90, 10], 100, 0.0), tokenizer_sample([900, 90, 10], 2000, 0.3)
    ([33, 33, 10], [900, 90, 10])
    """
    if sum(sizes) <= total:
        return sizes
    shares = language_shares(sizes, temperature)
    return [min(size, max(1, round(total * share))) for size, share in zip(sizes, shares, strict=True)]
