"""The encoder stage: the encoder that a run starts from, as an artifact that every node can read."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from babelray.cluster.tasks import Task, run_tasks
from babelray.encoder.load import encoder_files, locate_encoder
from babelray.objectives.objective import language_shares
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Summary
from babelray.recipe.encoder import EncoderConfig, ScratchConfig
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.stages.pretrain import (
    TrainingContext,
    check_corpus,
    corpus_parts,
    objective_sources,
    prepare_objectives,
    segmenters_of,
    train_encoder,
    training_summary,
)
from babelray.storage import Location
from babelray.storage.artifact import WORK
from babelray.storage.runs import find_encoder
from babelray.tracking.registry import SCHEME, resolve_alias
from babelray.tracking.tracker import tracking_uri

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.encoder.shape import EncoderShape
    from babelray.errors import CollectedErrors
    from babelray.pipeline.prospects import Demand, Prospects
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact
    from babelray.training.config import TrainingConfig

Pairs = dict[str, list[tuple[str, str]]]
"""Sentences of each language and their translations."""


class Settings(LanguageSettings):
    encoder: EncoderConfig


@STAGES.register
class EncoderStage(Stage[Settings]):
    """Fetch the encoder that the run starts from, or train a small one from scratch.

    Writes `encoder/`: a copy of an existing encoder, or one trained on the run's own corpus.
    """

    name = "encoder"
    needs = ("corpus",)

    def settings(self, recipe: Recipe) -> Settings:
        encoder = recipe.encoder
        if encoder.scratch is not None:
            for training in encoder.scratch.trainings:
                check_corpus(training, recipe.corpus)
        if encoder.path is not None:  # an alias may stand for another version tomorrow
            path = resolve_alias(find_encoder(encoder.path), tracking_uri(recipe.storage))
            encoder = encoder.model_copy(update={"path": path})
        return Settings(languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, encoder=encoder)

    def sources(self, settings: Settings) -> list[Location]:
        if settings.encoder.scratch is not None:
            trainings = [_training_settings(settings, training) for training in settings.encoder.scratch.trainings]
            return list(dict.fromkeys(file for training in trainings for file in objective_sources(training)))
        return encoder_files(settings.encoder.path) if settings.encoder.path else []

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        scratch = job.settings.encoder.scratch
        return _copy_existing(job) if scratch is None else _train_from_scratch(job, scratch)

    def reads(self, settings: Settings) -> Mapping[str, Collection[str]]:
        trainings = settings.encoder.scratch.trainings if settings.encoder.scratch else ()
        return {"corpus": {part for training in trainings for part in corpus_parts(training)}}

    def check(self, settings: Settings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.encoder.load import check_encoder_files

        if settings.encoder.path is not None:
            check_encoder_files(settings.encoder.path)
        elif settings.encoder.scratch is not None:
            for training in settings.encoder.scratch.trainings:
                prospects.check_training(training, "encoder.scratch.training", errors)

    def demand(self, settings: Settings, prospects: Prospects) -> Demand:
        from babelray.pipeline.prospects import Demand

        trainings = settings.encoder.scratch.trainings if settings.encoder.scratch else ()
        demands = [prospects.training_demand(training) for training in trainings]
        return max(demands, key=lambda demand: demand.memory, default=Demand())

    def encoder_shape(self, settings: Settings, artifact: Artifact | None) -> EncoderShape | None:
        from babelray.encoder.shape import EncoderShape

        if settings.encoder.scratch is not None:
            return EncoderShape.planned(settings.encoder.scratch)
        return EncoderShape.of(artifact.location / "encoder" if artifact else str(settings.encoder.path))

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        if settings.encoder.scratch is not None:
            return training_summary(artifact)
        return Summary(files={"encoder": "encoder"})


def _training_settings(settings: Settings, training: TrainingConfig) -> TrainingSettings:
    seed = settings.seed if training.seed is None else training.seed
    return TrainingSettings(languages=settings.languages, hub=settings.hub, seed=seed, training=training)


def _copy_existing(job: Job[Settings]) -> dict[str, Any]:
    path = job.settings.encoder.path
    assert path is not None
    if path.startswith(SCHEME):  # workers may have no access to the registry
        start = job.out / "work" / "start"
        with start.local_output() as folder:
            shutil.copytree(locate_encoder(path), folder, dirs_exist_ok=True)
        path = str(start)
    return run_tasks([Task("copy", _copy, (path, job.out))], job.progress, "encoder")["copy"]


def _train_from_scratch(job: Job[Settings], scratch: ScratchConfig) -> dict[str, Any]:
    start = job.out / WORK / "start"
    run_tasks([Task("tokenizer", initialise, (job.settings, job.source("corpus"), start))], job.progress, "tokenizer")
    settings = _training_settings(job.settings, scratch.training)
    if scratch.static is None:
        return train_encoder(job, settings, start, None)
    prepared = job.out / WORK / "prepared"
    context = TrainingContext(settings, start, job.source("corpus"), None, segmenters_of(job), job.out, prepared)
    prepare_objectives(context, [*scratch.static.objectives, *scratch.training.objectives], job)
    start = _train_static(job, scratch.static, start, prepared)
    return train_encoder(job, settings, start, None, prepared)


def _train_static(job: Job[Settings], training: TrainingConfig, start: Location, prepared: Location) -> Location:
    """Train an encoder without layers; return the folder of the encoder that has them."""
    grown, out = job.out / WORK / "grown", job.out / WORK / "static"

    def track(values: Mapping[str, float], step: int) -> None:
        job.track({f"static/{name}": value for name, value in values.items()}, step)

    if not (grown / "config.json").exists():
        settings = _training_settings(job.settings, training)
        train_encoder(replace(job, out=out, track=track), settings, start, None, prepared)
        run_tasks([Task("layers", _grow, (job.settings, out / "encoder", grown))], job.progress, "layers")
    return grown


def _copy(path: str, out: Location) -> dict[str, Any]:
    from babelray.encoder.load import load_masked_lm, load_tokenizer

    remote = path.startswith("s3://")
    with Location.parse(path).local_input() if remote else contextlib.nullcontext(path) as source:
        tokenizer, model = load_tokenizer(str(source)), load_masked_lm(str(source))
    with (out / "encoder").local_output() as folder:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return {"parameters": model.num_parameters()}


def initialise(settings: Settings, corpus: Location, start: Location) -> None:
    """Write a tokenizer trained on the corpus, and an encoder of random weights for it."""
    from babelray.encoder.scratch import random_encoder, static_encoder, train_tokenizer

    scratch = settings.encoder.scratch
    assert scratch is not None
    if (start / "config.json").exists():
        return
    held_out = scratch.training.validation.held_out if scratch.training.validation else 0.0
    pairs = {code: _training_pairs(settings.hub, corpus, code, held_out) for code in settings.languages}
    texts = _sample(settings.languages, scratch, corpus, pairs)
    tokenizer = train_tokenizer(texts, scratch.vocabulary, scratch.max_tokens, scratch.byte_fallback)
    build = static_encoder if scratch.static else random_encoder
    _save(tokenizer, build(scratch, len(tokenizer), settings.seed), start)


def _grow(settings: Settings, static: Location, grown: Location) -> None:
    """Write an encoder that was trained without layers as one with layers."""
    from babelray.encoder.load import load_masked_lm, load_tokenizer
    from babelray.encoder.scratch import add_layers

    assert settings.encoder.scratch is not None
    with static.local_input() as folder:
        tokenizer, model = load_tokenizer(folder), load_masked_lm(folder)
    _save(tokenizer, add_layers(model, settings.encoder.scratch, settings.seed), grown)


def _save(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, out: Location) -> None:
    """Write an encoder; a folder with a config is complete."""
    unfinished = out.parent / "unfinished"
    with unfinished.local_output() as folder:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    unfinished.move_to(out, last="config.json")


def _training_pairs(hub: str, corpus: Location, code: str, held_out: float) -> list[tuple[str, str]]:
    """Sentences of a language and their translations, without those held out from training."""
    from babelray.lexicon.pairs import read_pairs
    from babelray.training.training_data import is_held_out_text

    pairs = read_pairs(corpus / "parallel" / f"{code}-{hub}", "train")
    return [(pair.source, pair.target) for pair in pairs if not is_held_out_text(pair.target, held_out)]


def _sample(languages: list[str], scratch: ScratchConfig, corpus: Location, pairs: Pairs) -> list[str]:
    """A balanced sample of sentences of all languages: of their text, and of their parallel text."""
    import numpy as np

    from babelray.text.corpus import list_blocks, read_sentences

    counts = {code: sum(block.count for block in list_blocks(corpus, code, 10**9)) for code in languages}
    parallel = {code: list(dict.fromkeys(source for source, _ in pairs[code])) for code in languages}
    sizes = [counts[code] + len(parallel[code]) for code in languages]
    sampled = tokenizer_sample(sizes, scratch.tokenizer_sentences, scratch.tokenizer_temperature)
    texts: list[str] = []
    for code, size, count in zip(languages, sizes, sampled, strict=True):
        rows = np.linspace(0, size - 1, count).astype(int)
        texts += read_sentences(corpus, code)["text"].take(rows[rows < counts[code]]).to_pylist()
        texts += [parallel[code][row] for row in rows[rows >= counts[code]] - counts[code]]
    return texts


def tokenizer_sample(sizes: list[int], total: int, temperature: float) -> list[int]:
    """The number of sentences of each language for the tokenizer: all if there are few, else by temperature.

    >>> tokenizer_sample([900, 90, 10], 100, 0.0), tokenizer_sample([900, 90, 10], 2000, 0.3)
    ([33, 33, 10], [900, 90, 10])
    """
    if sum(sizes) <= total:
        return sizes
    shares = language_shares(sizes, temperature)
    return [min(size, max(1, round(total * share))) for size, share in zip(sizes, shares, strict=True)]
