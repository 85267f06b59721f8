"""The compare stage: encoders that were trained in several ways, with several seeds, from the same start."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.evaluation.comparison import START, Scores, TaskScores, comparison_page, comparison_table, summary
from babelray.evaluation.report import SCRIPT, STYLE
from babelray.languages import Language
from babelray.stages.evaluate import EvaluationSettings, encoder_scores, judge
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from babelray.evaluation.task import EvaluationTask
    from babelray.recipe import Recipe

MEASURED = ("retrieval", "layers", "words")
"""What is compared of all that `encoder_scores` finds."""


class Settings(Config):
    name: str
    languages: dict[str, Language]
    evaluation: EvaluationSettings


def run_name(variant: str, seed: int) -> str:
    return f"{variant}, seed {seed}"


class CompareStage(Stage[Settings]):
    """Leaves `scores.json`: {run: {task: {language: {measure: value}}}}, and `comparison.md`, `comparison.html`; for
    the tasks that the recipe lists every run's scores under `results/` and answers under `predictions/`.
    """

    name = "compare"

    def __init__(self, variants: list[str], seeds: list[int]) -> None:
        self.runs = {variant: [run_name(variant, seed) for seed in seeds] for variant in variants}
        self.needs = ("corpus", "encoder", *(name for names in self.runs.values() for name in names))

    def settings(self, recipe: Recipe) -> Settings:
        evaluation = EvaluationSettings(languages=recipe.languages, hub=recipe.hub, evaluate=recipe.evaluate)
        return Settings(name=recipe.name, languages=recipe.resolved_languages(), evaluation=evaluation)

    def sources(self, settings: Settings) -> list[Place]:
        listed = settings.evaluation.evaluate.tasks
        read = [place for task in listed if not task.missing() for place in task.sources()]
        return [Place.parse(STYLE), Place.parse(SCRIPT), *read]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        evaluation, corpus = job.settings.evaluation, job.source("corpus")
        encoders = {START: job.source("encoder"), **{name: job.source(name) for name in self.needs[2:]}}
        others = [code for code in evaluation.languages if code != evaluation.hub]
        tasks = [
            Task(name, encoder_scores, (evaluation, others, place / "encoder", corpus))
            for name, place in encoders.items()
        ]
        listed = [task for task in evaluation.evaluate.tasks if not task.missing()]
        judging = [
            Task(f"{task.label}: {name}", judge, (task, place / "encoder", job.out, name))
            for task in listed
            for name, place in encoders.items()
        ]
        found = run_tasks([*judging, *tasks], job.progress, "encoders")
        measured = {name: {task: found[name][task] for task in MEASURED} for name in encoders}
        (job.out / "scores.json").write_json(measured)
        runs = {v: [measured[name] for name in names] for v, names in self.runs.items()}
        scores = Scores(measured[START], runs, [self._task(task, found, job.out) for task in listed])
        (job.out / "comparison.md").write_text(comparison_table(scores))
        page = comparison_page(job.settings.name, scores, job.settings.languages, job.inputs)
        (job.out / "comparison.html").write_text(page)
        return summary(scores)

    def _task(self, task: EvaluationTask, found: dict[str, Any], out: Place) -> TaskScores:
        """The main measure of a task for every system and seed, and which examples each got right."""
        from babelray.evaluation.hits import hits_of

        systems = {START: [START], **self.runs}
        scores = {name: found[f"{task.label}: {name}"] for names in systems.values() for name in names}
        languages = list(scores[START])
        answers = {name: (out / "predictions" / f"{task.label}-{name}.json").read_json() for name in scores}
        return TaskScores(
            label=task.label,
            measure=task.main.replace("_", " "),
            percent=task.columns[task.main] == "%",
            means={
                s: [fmean(scores[n][code][task.main] for code in languages) for n in names]
                for s, names in systems.items()
            },
            hits={s: [hits_of(answers[n], languages) for n in names] for s, names in systems.items()},
        )
