"""The compare stage: encoders that were trained in several ways, with several seeds, from the same start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.evaluation.comparison import Scores, comparison_page, comparison_table, summary
from babelray.evaluation.report import SCRIPT, STYLE
from babelray.languages import Language
from babelray.stages.evaluate import EvaluationSettings, encoder_scores
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from babelray.recipe import Recipe

START = "before training"


class Settings(Config):
    name: str
    languages: dict[str, Language]
    evaluation: EvaluationSettings


def run_name(variant: str, seed: int) -> str:
    return f"{variant}, seed {seed}"


class CompareStage(Stage[Settings]):
    """Leaves `scores.json`: {run: {task: {language: {measure: value}}}}, and `comparison.md`, `comparison.html`."""

    name = "compare"

    def __init__(self, variants: list[str], seeds: list[int]) -> None:
        self.runs = {variant: [run_name(variant, seed) for seed in seeds] for variant in variants}
        self.needs = ("corpus", "encoder", *(name for names in self.runs.values() for name in names))

    def settings(self, recipe: Recipe) -> Settings:
        evaluation = EvaluationSettings(languages=recipe.languages, hub=recipe.hub, evaluate=recipe.evaluate)
        return Settings(name=recipe.name, languages=recipe.resolved_languages(), evaluation=evaluation)

    def sources(self, settings: Settings) -> list[Place]:
        return [Place.parse(STYLE), Place.parse(SCRIPT)]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        evaluation, corpus = job.settings.evaluation, job.source("corpus")
        encoders = {START: job.source("encoder"), **{name: job.source(name) for name in self.needs[2:]}}
        others = [code for code in evaluation.languages if code != evaluation.hub]
        tasks = [
            Task(name, encoder_scores, (evaluation, others, place / "encoder", corpus))
            for name, place in encoders.items()
        ]
        found = run_tasks(tasks, job.progress, "encoders")
        (job.out / "scores.json").write_json(found)
        scores = Scores(found[START], {v: [found[name] for name in names] for v, names in self.runs.items()})
        (job.out / "comparison.md").write_text(comparison_table(scores))
        page = comparison_page(job.settings.name, scores, job.settings.languages, job.inputs)
        (job.out / "comparison.html").write_text(page)
        return summary(scores)
