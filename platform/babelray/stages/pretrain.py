"""The pretrain stage: the encoder goes on training, with alignment objectives in the mixture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.training.config import TrainingConfig

if TYPE_CHECKING:
    from babelray.recipe import Recipe
    from babelray.training.launch import Worker


class Settings(Config):
    languages: list[str]
    hub: str
    seed: int
    training: TrainingConfig


class PretrainStage(Stage[Settings]):
    """Leaves `encoder/`, a folder that `AutoModel.from_pretrained` loads, and `curves.json`."""

    name = "pretrain"
    needs = ("corpus", "encoder", "align")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, training=recipe.pretrain)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        return train_encoder(
            job, job.settings, job.source("encoder") / "encoder", job.source("corpus"), job.source("align")
        )


def train_encoder(
    job: Job[Any], settings: Settings, encoder: Place, corpus: Place, aligned: Place | None
) -> dict[str, Any]:
    """Train an encoder on the cluster and leave it, with its loss curves, in the job's folder."""
    from babelray.training.launch import run_workers

    curves = Curves(job.out / "curves.json")

    def track(values: Any, step: int) -> None:
        curves.add(step, values)
        job.track(values, step)

    work = job.out / "work"
    checkpoint = run_workers(
        partial(_train, settings, encoder, corpus, aligned),
        settings.training.workers,
        work,
        settings.training.max_failures,
        job.progress,
        track,
        job.say,
    )
    assert checkpoint is not None  # the loop leaves one at its last step
    with checkpoint.as_directory() as folder, (job.out / "encoder").local_output() as target:
        import shutil

        shutil.copytree(f"{folder}/encoder", target, dirs_exist_ok=True)
    curves.save()
    work.delete()
    return {"steps": settings.training.steps, **curves.last()}


def _train(settings: Settings, encoder: Place, corpus: Place, aligned: Place | None, worker: Worker) -> None:
    """What each worker does."""
    from babelray.training.loop import train
    from babelray.training.materials import ArtifactMaterials

    with encoder.local_input() as folder:
        materials = ArtifactMaterials(
            str(folder), corpus, aligned, settings.languages, settings.hub, settings.seed, worker.rank
        )
        train(settings.training, worker, materials)


class Curves:
    """The figures of a training, by step; a resumed run keeps those from before."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.steps: dict[int, dict[str, float]] = {}
        if place.exists():
            self.steps = {int(row["step"]): row["values"] for row in place.read_json()}

    def add(self, step: int, values: dict[str, float]) -> None:
        self.steps[step] = values
        self.save()

    def save(self) -> None:
        self.place.write_json([{"step": step, "values": self.steps[step]} for step in sorted(self.steps)])

    def last(self) -> dict[str, float]:
        return self.steps[max(self.steps)] if self.steps else {}
