"""The pretrain stage: the encoder goes on training, with alignment objectives in the mixture."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from babelray.config import Config, operational
from babelray.errors import RecipeError, StorageError
from babelray.lexicon.word_alignment import links_file
from babelray.objectives.contrastive import ContrastiveConfig
from babelray.objectives.word_l2 import WordL2Config
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks
from babelray.training.config import TrainingConfig

if TYPE_CHECKING:
    from ray.train import Checkpoint
    from transformers import PreTrainedModel

    from babelray.recipe import Recipe
    from babelray.training.launch import Worker
    from babelray.training.materials import ArtifactMaterials


class Settings(Config):
    name: str = operational("encoder")
    languages: list[str]
    hub: str
    seed: int
    training: TrainingConfig


class PretrainStage(Stage[Settings]):
    """Leaves `encoder/`, a folder that `AutoModel` and `SentenceTransformer` load, and `curves.json`."""

    name = "pretrain"
    needs = ("corpus", "encoder", "align")

    def settings(self, recipe: Recipe) -> Settings:
        if recipe.pretrain is None:
            raise RecipeError("the recipe does not say how to train", "Give it a key `pretrain`.")
        seed = recipe.seed if recipe.pretrain.seed is None else recipe.pretrain.seed
        return Settings(
            name=recipe.name, languages=recipe.languages, hub=recipe.hub, seed=seed, training=recipe.pretrain
        )

    def sources(self, settings: Settings) -> list[Place]:
        return training_files(settings)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        return train_encoder(job, job.settings, job.source("encoder") / "encoder", job.source("align"))


def training_files(settings: Settings) -> list[Place]:
    """The files that objectives read themselves."""
    found: list[Place] = []
    for objective in settings.training.objectives:
        if isinstance(objective, WordL2Config) and objective.alignments:
            others = [code for code in settings.languages if code != settings.hub]
            found += [links_file(objective.alignments, code, settings.hub) for code in others]
        if isinstance(objective, ContrastiveConfig):
            found += objective.synonym_files(settings.languages).values()
    return found


def train_encoder(job: Job[Any], settings: Settings, encoder: Place, aligned: Place | None) -> dict[str, Any]:
    """Train an encoder on the cluster and leave it, with its loss curves, in the job's folder."""
    from babelray.training.launch import run_workers
    from babelray.training.validation import SCORE

    training = settings.training
    setting = Setting(settings, encoder, job.source("corpus"), aligned, segmenters_of(job), job.out / "alignments")
    if any(isinstance(objective, WordL2Config) and not objective.alignments for objective in training.objectives):
        others = [code for code in settings.languages if code != settings.hub]
        run_tasks([Task(code, _link_words, (setting, code)) for code in others], job.progress, "languages")

    curves = Curves(job.out / "curves.json")

    def track(values: Any, step: int) -> None:
        curves.add(step, values)
        job.track(values, step)

    work = job.out / "work"
    keep = {"num_to_keep": training.keep} | ({"checkpoint_score_attribute": SCORE} if training.validation else {})
    checkpoints = run_workers(
        partial(_train, setting), training.workers, work, training.max_failures, job.progress, track, job.say, keep
    )
    checkpoint, reached = max(checkpoints, key=lambda found: (found[1].get(SCORE, float("-inf")), found[1]["step"]))
    last = max(metrics["step"] for _, metrics in checkpoints)
    figures = {"steps": last, "step": reached["step"], **curves.last(), **curves.at(reached["step"], "validation/")}
    run_tasks([Task("export", _export, (setting, checkpoint, job.out / "encoder", figures))], job.progress, "encoder")
    curves.save()
    return figures


def segmenters_of(job: Job[Any]) -> dict[str, str]:
    return job.inputs["corpus"].manifest["settings"]["segmenters"]


@dataclass(frozen=True)
class Setting:
    """What every worker needs to know."""

    settings: Settings
    encoder: Place
    corpus: Place
    aligned: Place | None
    segmenters: dict[str, str]
    alignments: Place

    def materials(self, folder: str) -> ArtifactMaterials:
        from babelray.training.materials import ArtifactMaterials

        s = self.settings
        held_out = s.training.validation.held_out if s.training.validation else 0.0
        return ArtifactMaterials(
            folder, self.corpus, self.aligned, s.languages, s.hub, s.seed, self.segmenters, held_out, self.alignments
        )


def _train(setting: Setting, worker: Worker) -> None:
    """What each worker does."""
    from babelray.training.loop import train

    with setting.encoder.local_input() as folder:
        train(setting.settings.training, worker, setting.materials(str(folder)))


def _link_words(setting: Setting, code: str) -> None:
    """Learn which words translate which in a language's parallel text."""
    from babelray.lexicon.word_alignment import align_words, write_links

    hub = setting.settings.hub
    place = setting.alignments / f"{code}-{hub}.tsv"
    if place.exists():
        return
    materials = setting.materials(str(setting.encoder))
    sources, targets = materials.parallel(code)
    links = align_words(
        [materials.words_of(code, text) for text in sources], [materials.words_of(hub, text) for text in targets]
    )
    write_links(place, list(zip(sources, targets, links, strict=True)))


def _export(setting: Setting, checkpoint: Checkpoint, out: Place, figures: dict[str, Any]) -> None:
    """The encoder of a checkpoint, as others load it."""
    from babelray.encoder.load import load_masked_lm
    from babelray.training.checkpoint import Checkpoint as Saved

    with setting.encoder.local_input() as start, checkpoint.as_directory() as folder:
        model = load_masked_lm(str(start))
        Saved(folder).load_weights(model)
    save_trained(setting, model, out, figures)


def save_trained(setting: Setting, model: PreTrainedModel, out: Place, figures: dict[str, Any]) -> None:
    """A trained encoder with its tokenizer and its model card, as others load it."""
    from babelray.encoder.load import load_tokenizer, save_encoder
    from babelray.training.card import model_card, sentence_transformer

    s = setting.settings
    with setting.encoder.local_input() as start, out.local_output() as target:
        tokenizer = load_tokenizer(str(start))
        save_encoder(model, target, s.training.weights)
        tokenizer.save_pretrained(target)
        sentence_transformer(target, model.config.hidden_size, min(tokenizer.model_max_length, 512))
        card = model_card(s.name, s.languages, s.hub, s.training, figures, model)
        (target / "README.md").write_text(card, encoding="utf-8")


class Curves:
    """The figures of a training, by step; a resumed run keeps those from before. Those by language are not in them."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.steps: dict[int, dict[str, float]] = {}
        if place.exists():
            self.steps = {int(row["step"]): row["values"] for row in place.read_json()}

    def add(self, step: int, values: dict[str, float]) -> None:
        whole = {name: value for name, value in values.items() if not name.startswith("language/")}
        self.steps.setdefault(step, {}).update(whole)
        with contextlib.suppress(StorageError):  # what cannot be written now is written later, at the end at the latest
            self.save()

    def save(self) -> None:
        self.place.write_json([{"step": step, "values": self.steps[step]} for step in sorted(self.steps)])

    def last(self) -> dict[str, float]:
        return {name: value for name, value in self.at(max(self.steps, default=0)).items() if "speed/" not in name}

    def at(self, step: int, beginning: str = "") -> dict[str, float]:
        return {name: value for name, value in self.steps.get(step, {}).items() if name.startswith(beginning)}
