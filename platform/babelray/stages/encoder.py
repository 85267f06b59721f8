"""The encoder stage: the encoder that a run starts from, as an artifact that every node can read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.encoder.config import EncoderConfig
from babelray.encoder.load import located
from babelray.objectives.objective import language_shares
from babelray.stages.pretrain import Settings as TrainingSettings
from babelray.stages.pretrain import train_encoder
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks
from babelray.tracking.registry import SCHEME, resolved
from babelray.tracking.tracker import tracking_uri

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
        encoder = recipe.encoder
        if encoder.path is not None:  # an alias may stand for another version tomorrow
            encoder = encoder.model_copy(update={"path": resolved(encoder.path, tracking_uri(recipe.storage))})
        return Settings(languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, encoder=encoder)

    def sources(self, settings: Settings) -> list[Place]:
        path = settings.encoder.path and located(settings.encoder.path)
        if path is None or not (path.startswith("s3://") or os.path.isdir(path)):
            return []
        return [Place.parse(path) / name for name in Place.parse(path).files() if not name.endswith(".md")]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        scratch = settings.encoder.scratch
        start = job.out / "work" / "start"
        if scratch is None:
            assert settings.encoder.path is not None
            path = settings.encoder.path
            if path.startswith(SCHEME):  # workers may not reach the registry
                with start.local_output() as folder:
                    shutil.copytree(located(path), folder, dirs_exist_ok=True)
                path = str(start)
            return run_tasks([Task("copy", _copy, (path, job.out))], job.progress, "encoder")["copy"]
        run_tasks([Task("tokenizer", _make, (settings, job.source("corpus"), start))], job.progress, "tokenizer")
        seed = settings.seed if scratch.training.seed is None else scratch.training.seed
        training = TrainingSettings(
            languages=settings.languages, hub=settings.hub, seed=seed, training=scratch.training
        )
        return train_encoder(job, training, start, None)


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
    from babelray.encoder.scratch import cooccurrence_embeddings, random_encoder, train_tokenizer
    from babelray.training.materials import is_kept_back

    scratch = settings.encoder.scratch
    assert scratch is not None
    if (start / "config.json").exists():
        return
    pairs = {code: _pairs(settings, corpus, code) for code in settings.languages}
    texts = _sample(settings, corpus, pairs)
    tokenizer = train_tokenizer(texts, scratch.vocabulary, scratch.max_tokens, scratch.byte_fallback)
    model = random_encoder(scratch, len(tokenizer), settings.seed)
    if scratch.embeddings == "cooccurrence":
        seen = [text for text in texts if not is_kept_back(text, _held_out(settings))]
        contexts = _contexts(tokenizer, seen, pairs)
        found_VD = cooccurrence_embeddings(contexts, len(tokenizer), scratch.width, settings.seed)
        model.get_input_embeddings().weight.data.copy_(found_VD * model.config.initializer_range)
    unfinished = start.parent / "unfinished"
    with unfinished.local_output() as folder:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    unfinished.move_to(start, last="config.json")


def _pairs(settings: Settings, corpus: Place, code: str) -> list[tuple[str, str]]:
    """Sentences of a language and their translations, none that training measures with."""
    from babelray.lexicon.pairs import read_pairs
    from babelray.training.materials import is_kept_back

    share = _held_out(settings)
    pairs = read_pairs(corpus / "parallel" / f"{code}-{settings.hub}", "train")
    return [(pair.source, pair.target) for pair in pairs if not is_kept_back(pair.target, share)]


def _held_out(settings: Settings) -> float:
    """The share of sentences that training measures with."""
    assert settings.encoder.scratch is not None
    validation = settings.encoder.scratch.training.validation
    return validation.held_out if validation else 0.0


def _sample(settings: Settings, corpus: Place, pairs: dict[str, list[tuple[str, str]]]) -> list[str]:
    """Sentences of all languages, balanced: of their text, and of what is parallel to the hub's."""
    import numpy as np

    from babelray.text.corpus import blocks, read_sentences

    scratch = settings.encoder.scratch
    assert scratch is not None
    written = {code: sum(block.count for block in blocks(corpus, code, 10**9)) for code in settings.languages}
    parallel = {code: list(dict.fromkeys(source for source, _ in pairs[code])) for code in settings.languages}
    sizes = [written[code] + len(parallel[code]) for code in settings.languages]
    wanted = tokenizer_sample(sizes, scratch.tokenizer_sentences, scratch.tokenizer_temperature)
    texts: list[str] = []
    for code, size, count in zip(settings.languages, sizes, wanted, strict=True):
        rows = np.linspace(0, size - 1, count).astype(int)
        texts += read_sentences(corpus, code)["text"].take(rows[rows < written[code]]).to_pylist()
        texts += [parallel[code][row] for row in rows[rows >= written[code]] - written[code]]
    return texts


def _contexts(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], pairs: dict[str, list[tuple[str, str]]]
) -> Iterator[list[int]]:
    """Subwords of sentences, and of at most as many with their translations."""
    contexts = list(texts)
    most = max(1, len(texts) // len(pairs))
    for some in pairs.values():
        contexts += [f"{source} {target}" for source, target in some[:: max(1, len(some) // most)]]
    for first in range(0, len(contexts), 10_000):
        yield from tokenizer(contexts[first : first + 10_000], add_special_tokens=False)["input_ids"]


def tokenizer_sample(sizes: list[int], total: int, temperature: float) -> list[int]:
    """How many sentences of each language make the tokenizer: all if there are few, else by temperature.

    >>> tokenizer_sample([900, 90, 10], 100, 0.0), tokenizer_sample([900, 90, 10], 2000, 0.3)
    ([33, 33, 10], [900, 90, 10])
    """
    if sum(sizes) <= total:
        return sizes
    shares = language_shares(sizes, temperature)
    return [min(size, max(1, round(total * share))) for size, share in zip(sizes, shares, strict=True)]
