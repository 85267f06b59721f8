"""The evaluate stage: every benchmark of a recipe, for the systems before and after training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.cluster.devices import assigned_device
from babelray.cluster.tasks import Task, run_tasks
from babelray.config import operational
from babelray.errors import DataError
from babelray.evaluation.benchmark import AnyBenchmark, Benchmark, Result, System
from babelray.metrics.example_scores import example_scores_of, p_values
from babelray.metrics.format import format_chance, format_p, format_score
from babelray.metrics.intervals import format_interval
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Cell, Column, Summary, Table
from babelray.storage import Location
from babelray.storage.artifact import WORK
from babelray.storage.results import (
    BenchmarkResults,
    Scores,
    predictions_file,
    read_result,
    read_results,
    result_file,
    write_index,
)

if TYPE_CHECKING:
    from babelray.errors import CollectedErrors
    from babelray.pipeline.prospects import Prospects
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact


WHOLE = [""]
"""The parts of a benchmark that has none."""


class EvaluationSettings(LanguageSettings):
    names: dict[str, str] = operational({})
    """English names of the languages, for the terminal."""
    benchmarks: list[AnyBenchmark]


@STAGES.register
class EvaluateStage(Stage[EvaluationSettings]):
    """Evaluate the encoder and the static vectors, before and after.

    Writes scores, figures and predictions of each benchmark and system: see `storage/results.py`.
    """

    name = "evaluate"
    needs = ("corpus", "encoder", "extract", "align", "pretrain")
    scores_run = True

    def settings(self, recipe: Recipe) -> EvaluationSettings:
        return EvaluationSettings(
            names={code: language.name for code, language in recipe.resolved_languages().items()},
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            benchmarks=recipe.evaluate.completed(),
        )

    def sources(self, settings: EvaluationSettings) -> list[Location]:
        return benchmark_files(settings.benchmarks, settings.languages)

    def run(self, job: Job[EvaluationSettings]) -> dict[str, Any]:
        settings = job.settings
        if not settings.others:
            raise DataError("there is only one language: nothing can be compared", "List at least two languages.")
        artifacts = {"before": ("encoder", "extract"), "after": ("pretrain", "align")}
        systems = {name: make_system(job, *stages) for name, stages in artifacts.items()}
        results = {
            label: dataclasses.replace(result, p=compare_systems(result, job.out))
            for label, result in score_systems(available(settings.benchmarks, job), systems, job).items()
        }
        write_index(job.out, results)
        return {
            f"{label}/{name}": mean
            for label, result in results.items()
            for name in systems
            if (mean := result.mean(name)) is not None
        }

    def check(self, settings: EvaluationSettings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.pipeline.prospects import check_several

        prospects.check_benchmarks(settings.benchmarks, errors)
        check_several(settings.languages, "compared")

    def summary(self, artifact: Artifact, settings: EvaluationSettings) -> Summary:
        """Headline benchmarks by language; of all others the means over languages."""
        results = {label: result for label, result in read_results(artifact.location).items() if result.scores["after"]}
        headline = {label: result for label, result in results.items() if result.meta["headline"]}
        others = {label: result for label, result in results.items() if label not in headline}
        tables = [_by_language(headline, settings.names)] if headline else []
        return Summary(tables + ([_means(others)] if others else []))


def make_system(job: Job[Any], encoder: str, vectors: str | None = None) -> System:
    """The system of an encoder's and a vectors' artifact, by the names of the inputs."""
    return System(
        encoder=str(job.source(encoder) / "encoder"),
        vectors=job.source(vectors) if vectors else None,
        corpus=job.source("corpus"),
        languages=job.settings.languages,
        hub=job.settings.hub,
    )


def benchmark_files(benchmarks: Sequence[Benchmark], languages: Sequence[str]) -> list[Location]:
    """The files that benchmarks read besides artifacts; none of a benchmark that is left out."""
    complete = (benchmark for benchmark in benchmarks if not benchmark.missing(languages))
    return [location for benchmark in complete for location in benchmark.sources(languages)]


def available(benchmarks: Sequence[Benchmark], job: Job[Any]) -> list[Benchmark]:
    """The benchmarks whose data are present; the user is notified of the others."""
    complete = []
    for benchmark in benchmarks:
        if missing := benchmark.missing(job.settings.languages):
            job.notify(f"left out: {benchmark.label}, since {missing}")
        else:
            complete.append(benchmark)
            for omission in benchmark.omissions():
                job.notify(f"{benchmark.label}: {omission}")
    return complete


def score_systems(
    benchmarks: Sequence[Benchmark], systems: Mapping[str, System], job: Job[Any]
) -> dict[str, BenchmarkResults]:
    """Score every system on every benchmark: each pair is a task on the cluster, or several if it has parts."""
    long_first = sorted(benchmarks, key=lambda benchmark: benchmark.held_out)
    units = [
        (benchmark, name, benchmark.parts(system))
        for benchmark in long_first
        for name, system in systems.items()
        if not result_file(job.out, benchmark.label, name).exists()
    ]
    tasks = [
        Task(
            _task_name(benchmark, name, part),
            score_part,
            (benchmark, systems[name], part, job.out, name),
            encodes="encoder" in benchmark.needs,
        )
        for benchmark, name, parts in units
        for part in parts
    ]
    results = run_tasks(tasks, job.progress, "benchmarks") if tasks else {}
    for benchmark, name, parts in units:
        if parts != WHOLE:
            result = Result.merged([results[_task_name(benchmark, name, part)] for part in parts])
            write_result(benchmark, result, job.out, name)
    return {benchmark.label: read_result(job.out, benchmark.label, list(systems)) for benchmark in benchmarks}


def score_part(benchmark: Benchmark, system: System, part: str, out: Location, name: str) -> Result | None:
    """The result of a part; if the part is the whole benchmark, its result is written instead.

    Results of parts are stored too: an interrupted run uses them again.
    """
    if [part] == WHOLE:
        score_benchmark(benchmark, system, out, name)
        return None
    file = out / WORK / "parts" / f"{_task_name(benchmark, name, part)}.json"
    if not file.exists():
        with ExitStack() as stack:
            result = benchmark.score_part(_with_local_encoder(benchmark, system, stack), part)
        file.write_json(dataclasses.asdict(result))
    return Result(**file.read_json())


def score_benchmark(benchmark: Benchmark, system: System, out: Location, name: str) -> Scores:
    """The scores of a system on a benchmark, by language; the result of an interrupted run is used again."""
    file = result_file(out, benchmark.label, name)
    if not file.exists():
        with ExitStack() as stack:
            write_result(benchmark, benchmark.score(_with_local_encoder(benchmark, system, stack)), out, name)
    return file.read_json()["scores"]


def write_result(benchmark: Benchmark, result: Result, out: Location, name: str) -> None:
    """Write predictions, then scores: a result that is there is complete."""
    predictions_file(out, benchmark.label, name).write_json(result.predictions)
    content = {
        "meta": benchmark.about(),
        "scores": result.scores,
        "intervals": result.confidence(benchmark.main_metric),
        "chance": result.chance,
        "figures": result.figures,
    }
    result_file(out, benchmark.label, name).write_json(content)


def compare_systems(result: BenchmarkResults, out: Location) -> dict[str, float]:
    """The p-values of the difference of two systems, by language; empty where examples have no scores."""
    languages = list(next(iter(result.scores.values())))
    predictions = [predictions_file(out, result.label, name).read_json() for name in result.scores]
    first, second = (example_scores_of(own, languages) for own in predictions)
    return p_values(first, second)


def _task_name(benchmark: Benchmark, name: str, part: str) -> str:
    return f"{benchmark.label}/{name}" + (f"/{part}" if part else "")


def _with_local_encoder(benchmark: Benchmark, system: System, stack: ExitStack) -> System:
    """The system with its encoder on this machine, for this process's device; of a mapped encoder, several folders are
    read where they lie.
    """
    from babelray.models.mapped import is_mapped

    system = dataclasses.replace(system, device=assigned_device())
    if "encoder" not in benchmark.needs or is_mapped(system.encoder):
        return system
    folder = stack.enter_context(Location.parse(system.encoder).local_input())
    return dataclasses.replace(system, encoder=str(folder))


def _by_language(results: Mapping[str, BenchmarkResults], names: Mapping[str, str]) -> Table:
    """A row for each language, with the main metric of each benchmark before and after; then their means."""
    codes = dict.fromkeys(code for result in results.values() for code in result.scores["after"])
    columns = [Column(""), Column("language")]
    columns += [score_column(result) for result in results.values()]
    rows: list[list[Cell]] = [
        [code, names.get(code, ""), *(_before_after(result, [code]) for result in results.values())] for code in codes
    ]
    rows.append(["", "mean", *(_before_after(result, list(codes)) for result in results.values())])
    notes = [f"{label}: {result.title}{_reliability(result)}" for label, result in results.items()]
    return Table("before → after", columns, rows, mean=True, notes=notes)


def score_column(result: BenchmarkResults) -> Column:
    """A column of the main metric of a benchmark, with its unit."""
    return Column(f"{result.label} %" if result.format() == "%" else result.label, result.format())


def _before_after(result: BenchmarkResults, codes: Sequence[str]) -> Cell:
    """The main metric, the mean over those of the languages that have it before and after."""
    before, after = (result.scores[name] for name in ("before", "after"))
    metric, both = result.main_metric, [code for code in codes if code in before and code in after]
    return (fmean(before[c][metric] for c in both), fmean(after[c][metric] for c in both)) if both else None


def _means(results: Mapping[str, BenchmarkResults]) -> Table:
    """A row for each benchmark: its main metric, the mean over languages."""
    columns = [Column(title) for title in ("benchmark", "metric", "languages", "before", "after", "p")]
    rows = []
    for label, result in results.items():
        means = (result.mean(name) for name in ("before", "after"))
        cells = ["–" if mean is None else format_score(mean, result.format()) for mean in means]
        count = f"{len(result.scores['after'])}"
        rows.append([label, result.metric_title(), count, *cells, format_p(result.p.get(""))])
    notes = [f"{label}{text}" for label, result in results.items() if (text := _reliability(result))]
    return Table("Benchmarks, mean over languages", columns, rows, notes=notes)


def _reliability(result: BenchmarkResults) -> str:
    """The level of chance and the confidence intervals of a benchmark, as the end of a note; empty if not known."""
    form, intervals = result.format(), [result.intervals.get(name, {}) for name in ("before", "after")]
    parts = []
    if result.chance:
        chance = fmean(result.chance.values())
        parts.append(f"chance {format_chance(chance, form)}")
    if all("" in own for own in intervals):
        means = " → ".join(format_interval(own[""], form) for own in intervals)
        parts.append(f"95 % interval of the mean {means}")
    halves = [(high - low) / 2 for code, (low, high) in intervals[1].items() if code]
    if halves:
        parts.append(f"of one language ± {format_score(fmean(halves), form)}")
    return "".join(f"; {part}" for part in parts)
