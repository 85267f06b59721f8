"""The compare stage: encoders that were trained in several ways, with several seeds, from the same start."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from babelray.evaluation.benchmark import Benchmark
from babelray.pipeline.stage import STAGES, Job, Stage, run_name
from babelray.pipeline.summary import Cell, Column, Summary, Table
from babelray.stages.evaluate import (
    EvaluationSettings,
    available,
    benchmark_files,
    make_system,
    score_column,
    score_systems,
)
from babelray.storage import Location
from babelray.storage.results import GROUPS, read_results, write_index

if TYPE_CHECKING:
    from babelray.errors import CollectedErrors
    from babelray.pipeline.prospects import Prospects
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact

START = "before training"
"""The system that all variants start from."""


class ComparisonSettings(EvaluationSettings):
    variants: list[str]
    seeds: list[int]

    @property
    def runs(self) -> dict[str, list[str]]:
        """The runs of each variant."""
        return {variant: [run_name(variant, seed) for seed in self.seeds] for variant in self.variants}

    @property
    def of_encoders(self) -> list[Benchmark]:
        """The benchmarks that read no static vectors: variants have none."""
        return [benchmark for benchmark in self.benchmarks if "vectors" not in benchmark.needs]


@STAGES.register
class CompareStage(Stage[ComparisonSettings]):
    """Compare the variants of a recipe over seeds.

    Writes results and predictions like the evaluate stage, with each run of a variant as a system, and `systems.json`,
    which groups them.
    """

    name = "compare"
    needs = ("corpus", "encoder")
    compares = "pretrain"
    scores_run = True

    def wanted(self, recipe: Recipe) -> bool:
        return bool(recipe.variants)

    def settings(self, recipe: Recipe) -> ComparisonSettings:
        return ComparisonSettings(
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            benchmarks=recipe.evaluate.completed(),
            variants=list(recipe.variants),
            seeds=recipe.seeds,
        )

    def sources(self, settings: ComparisonSettings) -> list[Location]:
        return benchmark_files(settings.of_encoders, settings.languages)

    def run(self, job: Job[ComparisonSettings]) -> dict[str, Any]:
        runs = job.settings.runs
        if excluded := [b.label for b in job.settings.benchmarks if b not in job.settings.of_encoders]:
            job.notify(f"left out: {', '.join(excluded)}, since variants have no static vectors")
        systems = {START: make_system(job, "encoder")}
        systems |= {name: make_system(job, name) for names in runs.values() for name in names}
        results = score_systems(available(job.settings.of_encoders, job), systems, job)
        write_index(job.out, results)
        groups = {START: [START], **runs}
        (job.out / GROUPS).write_json(groups)
        return {
            f"{label}/{'before' if group == START else group}": fmean(means)
            for label, result in results.items()
            for group, names in groups.items()
            if (means := result.means(names))
        }

    def check(self, settings: ComparisonSettings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.pipeline.prospects import check_several

        prospects.check_benchmarks(settings.benchmarks, errors)
        check_several(settings.languages, "compared")

    def summary(self, artifact: Artifact, settings: ComparisonSettings) -> Summary:
        """The main metric of every benchmark, the mean over languages, for each variant."""
        results = read_results(artifact.location)
        columns = [Column("")]
        for result in results.values():
            columns += [score_column(result), Column("±", result.format())]
        rows: list[list[Cell]] = []
        for group, names in (artifact.location / GROUPS).read_json().items():
            row: list[Cell] = [group]
            for result in results.values():
                means = result.means(names)
                row += [fmean(means) if means else None, stdev(means) if len(means) > 1 else None]
            rows.append(row)
        notes = ["± is the standard deviation over seeds."]
        return Summary(tables=[Table("Mean over languages", columns, rows, notes=notes)])
