"""The pretrain stage: continued pre-training of the encoder, with alignment objectives in the mixture."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from babelray.cluster.tasks import Task, run_tasks
from babelray.config import Config, operational
from babelray.errors import RecipeError, StorageError
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Column, Summary, Table
from babelray.storage import Location
from babelray.storage.artifact import WORK
from babelray.training.config import TrainingConfig

if TYPE_CHECKING:
    from ray.train import Checkpoint
    from transformers import PreTrainedModel

    from babelray.errors import CollectedErrors
    from babelray.objectives.objective import ObjectiveConfig, Preparation
    from babelray.pipeline.prospects import Demand, Prospects
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact
    from babelray.training.launch import Worker
    from babelray.training.training_data import ArtifactTrainingData


class Settings(LanguageSettings):
    name: str = operational("encoder")
    training: TrainingConfig


@STAGES.register
class PretrainStage(Stage[Settings]):
    """Train the encoder further, with objectives that bring its languages together.

    Writes `encoder/`, a folder that `AutoModel` and `SentenceTransformer` load, and `curves.json`, the losses by step.
    """

    name = "pretrain"
    needs = ("corpus", "encoder", "align")
    trains_encoder = True

    def wanted(self, recipe: Recipe) -> bool:
        return recipe.pretrain is not None

    def settings(self, recipe: Recipe) -> Settings:
        if recipe.pretrain is None:
            raise RecipeError("the recipe has no training", "Give it a key `pretrain`.")
        check_corpus(recipe.pretrain, recipe.corpus)
        seed = recipe.seed if recipe.pretrain.seed is None else recipe.pretrain.seed
        return Settings(
            name=recipe.name, languages=recipe.languages, hub=recipe.hub, seed=seed, training=recipe.pretrain
        )

    def sources(self, settings: Settings) -> list[Location]:
        return objective_sources(settings)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        return train_encoder(job, job.settings, job.source("encoder") / "encoder", job.source("align"))

    def reads(self, settings: Settings) -> Mapping[str, Collection[str]]:
        needs = {need for objective in settings.training.objectives for need in objective.required_data()}
        unread = {} if needs & {"induced", "vectors"} else {"align": ()}
        return {"corpus": corpus_parts(settings.training)} | unread

    def check(self, settings: Settings, prospects: Prospects, errors: CollectedErrors) -> None:
        prospects.check_training(settings.training, "pretrain", errors)

    def demand(self, settings: Settings, prospects: Prospects) -> Demand:
        return prospects.training_demand(settings.training)

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        return training_summary(artifact)


def training_summary(artifact: Artifact) -> Summary:
    """The last losses, the scores on held-out data if there are any, and the folder of the encoder."""
    metrics = artifact.metrics
    names = [name for name in metrics if name.startswith(("loss/", "validation/"))]
    rows = [(name.replace("/", " "), metrics[name]) for name in names]
    table = Table(f"training, step {metrics['step']:,}", [Column("metric"), Column("value", ".4f")], rows)
    return Summary([table], {"encoder, for AutoModel and SentenceTransformer": "encoder"})


def corpus_parts(training: TrainingConfig) -> tuple[str, ...]:
    """The parts of the corpus that a training reads: validation reads parallel text wherever there is some."""
    needs = {need for objective in training.objectives for need in objective.required_data()}
    return ("text", "parallel", "dictionary") if "dictionary" in needs else ("text", "parallel")


def check_corpus(training: TrainingConfig, corpus: Config) -> None:
    """Raise an error if an objective needs data that the recipe does not give."""
    for objective in training.objectives:
        for need in objective.required_data():
            if not getattr(corpus, need, True):  # those that are no keys of `corpus` come from stages
                remedy = f"Give it in the recipe under `corpus.{need}`."
                raise RecipeError(f"the objective {objective.label} needs data: {need}", remedy)


def objective_sources(settings: Settings) -> list[Location]:
    """The files that objectives read themselves."""
    objectives = settings.training.objectives
    return [file for objective in objectives for file in objective.sources(settings.languages, settings.hub)]


def train_encoder(
    job: Job[Any],
    settings: Settings,
    encoder: Location,
    aligned: Location | None,
    prepared: Location | None = None,
) -> dict[str, Any]:
    """Train an encoder on the cluster; write it, with its loss curves, into the job's folder.

    `prepared` is the folder of what `prepare_objectives` has done; by default it is done here.
    """
    folder = prepared or job.out / WORK / "prepared"
    context = TrainingContext(settings, encoder, job.source("corpus"), aligned, segmenters_of(job), job.out, folder)
    if prepared is None:
        prepare_objectives(context, settings.training.objectives, job)
    curves = Curves(job.out / "curves.json")
    checkpoints = _train_on_workers(context, job, curves)
    checkpoint, metrics = _best_checkpoint(checkpoints, curves)
    run_tasks([Task("export", _export, (context, checkpoint, job.out / "encoder", metrics))], job.progress, "encoder")
    curves.save()
    return metrics


def prepare_objectives(context: TrainingContext, objectives: Sequence[ObjectiveConfig], job: Job[Any]) -> None:
    """Run the tasks that objectives need done before the training, those that several need once."""
    from babelray.objectives.objective import merge_preparations

    settings = context.settings
    for phase in merge_preparations(objectives, settings.languages, settings.hub):
        tasks = [
            Task(name, _prepare, (context, preparation), encodes=preparation.encodes)
            for name, preparation in phase.items()
        ]
        run_tasks(tasks, job.progress, "preparations")


def _train_on_workers(
    context: TrainingContext, job: Job[Any], curves: Curves
) -> list[tuple[Checkpoint, dict[str, Any]]]:
    """Train on Ray Train's workers; return the checkpoints that are kept, with their metrics."""
    from babelray.training.launch import WorkerRun, run_workers
    from babelray.training.validation import SCORE

    training = context.settings.training

    def track(values: Any, step: int) -> None:
        curves.add(step, values)
        job.track(values, step)

    keep: dict[str, Any] = {"num_to_keep": training.keep_checkpoints}
    if training.validation:
        keep["checkpoint_score_attribute"] = SCORE
    run = WorkerRun(
        training.workers,
        job.out / WORK,
        job.progress,
        track,
        job.notify,
        training.max_failures,
        keep,
        training.shared_by,
    )
    return run_workers(partial(_train, context), run)


def _best_checkpoint(
    checkpoints: list[tuple[Checkpoint, dict[str, Any]]], curves: Curves
) -> tuple[Checkpoint, dict[str, Any]]:
    """The checkpoint with the best score, or without scores the last, and the metrics of the training."""
    from babelray.training.validation import SCORE

    checkpoint, best = max(checkpoints, key=lambda entry: (entry[1].get(SCORE, float("-inf")), entry[1]["step"]))
    last = max(metrics["step"] for _, metrics in checkpoints)
    metrics = {"steps": last, "step": best["step"], **curves.last(), **curves.at(best["step"], "validation/")}
    return checkpoint, metrics


def segmenters_of(job: Job[Any]) -> dict[str, str]:
    return job.inputs["corpus"].manifest["settings"]["segmenters"]


@dataclass(frozen=True)
class TrainingContext:
    """The settings and the inputs of a training, for its workers and tasks."""

    settings: Settings
    encoder: Location
    corpus: Location
    aligned: Location | None
    segmenters: dict[str, str]
    out: Location
    prepared: Location
    """The folder of what tasks prepare for objectives."""

    def training_data(self, folder: str) -> ArtifactTrainingData:
        from babelray.training.training_data import ArtifactTrainingData

        s = self.settings
        held_out = s.training.validation.held_out if s.training.validation else 0.0
        return ArtifactTrainingData(
            folder,
            self.corpus,
            self.aligned,
            s.languages,
            s.hub,
            s.seed,
            self.segmenters,
            held_out,
            self.out / "alignments",
            self.prepared,
        )


def _train(context: TrainingContext, worker: Worker) -> None:
    """The training of one worker."""
    from babelray.training.loop import train

    with context.encoder.local_input() as folder:
        train(context.settings.training, worker, context.training_data(str(folder)))


def _prepare(context: TrainingContext, preparation: Preparation) -> None:
    """A task that an objective needs done before the training."""
    preparation(context.training_data(str(context.encoder)))


def _export(context: TrainingContext, checkpoint: Checkpoint, out: Location, metrics: dict[str, Any]) -> None:
    """Save the encoder of a checkpoint as a model folder."""
    from babelray.encoder.load import load_masked_lm
    from babelray.training.checkpoint import Checkpoint as Weights

    with context.encoder.local_input() as start, checkpoint.as_directory() as folder:
        model = load_masked_lm(str(start))
        Weights(folder).load_weights(model)
    save_trained(context, model, out, metrics)


def save_trained(context: TrainingContext, model: PreTrainedModel, out: Location, metrics: dict[str, Any]) -> None:
    """Save a trained encoder with its tokenizer and its model card. A folder with a config is complete."""
    from babelray.encoder.load import load_tokenizer, save_encoder
    from babelray.training.model_card import model_card, sentence_transformer

    s, unfinished = context.settings, _unfinished(out)
    with context.encoder.local_input() as start, unfinished.local_output() as target:
        tokenizer = load_tokenizer(str(start))
        save_encoder(model, target, s.training.weights)
        tokenizer.save_pretrained(target)
        sentence_transformer(target, model.config.hidden_size, min(tokenizer.model_max_length, 512))
        card = model_card(s.name, s.languages, s.hub, s.training, metrics, model)
        (target / "README.md").write_text(card, encoding="utf-8")
    out.delete()
    unfinished.move_to(out, last="config.json")


def is_saved(out: Location) -> bool:
    """Whether `save_trained` has written this encoder. On S3, a kill may have left the source of its last move."""
    saved = (out / "config.json").exists()
    if saved:
        _unfinished(out).delete()
    return saved


def _unfinished(out: Location) -> Location:
    return out.parent / f"{out.name}.unfinished"


class Curves:
    """The metrics of a training by step, without those by language. A resumed run adds to those from before."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.steps: dict[int, dict[str, float]] = {}
        if location.exists():
            self.steps = {int(row["step"]): row["values"] for row in location.read_json()}

    def add(self, step: int, values: dict[str, float]) -> None:
        overall = {name: value for name, value in values.items() if not name.startswith("language/")}
        self.steps.setdefault(step, {}).update(overall)
        with contextlib.suppress(StorageError):  # a later call, the last one at the latest, writes it
            self.save()

    def save(self) -> None:
        self.location.write_json([{"step": step, "values": self.steps[step]} for step in sorted(self.steps)])

    def last(self) -> dict[str, float]:
        return {name: value for name, value in self.at(max(self.steps, default=0)).items() if "speed/" not in name}

    def at(self, step: int, prefix: str = "") -> dict[str, float]:
        return {name: value for name, value in self.steps.get(step, {}).items() if name.startswith(prefix)}
