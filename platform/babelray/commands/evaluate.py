"""One encoder on one benchmark, without a recipe; and several such results side by side.

A result is a folder: `result.json` with the scores by language, the benchmark's settings, and the fingerprints of the
encoder and the data; `predictions.json` with every answer, so that scores can be computed again and errors examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.encoder.load import locate_encoder
from babelray.errors import BabelrayError, DataError
from babelray.evaluation.benchmark import BENCHMARKS, System
from babelray.metrics.example_scores import ExampleScores, example_scores_of, p_value
from babelray.metrics.format import format_p, format_score
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import fingerprint, provenance

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.evaluation.benchmark import Benchmark, Result

RESULT, PREDICTIONS = "result.json", "predictions.json"
ALPHA = 0.05
"""A difference with a smaller p-value is marked."""


def evaluate_model(model: AnyPath, benchmark: Benchmark, out: AnyPath | None, console: Console) -> Location:
    """Score an encoder, print the scores, and write the result into a folder, by default one named by its content."""
    if benchmark.needs != ("encoder",):
        others = ", ".join(name for name in benchmark.needs if name != "encoder")
        raise BabelrayError(
            f"{benchmark.benchmark} needs the {others} of a run", "List it under evaluate.benchmarks of a recipe."
        )
    sources = {str(location): location.digest() for location in benchmark.sources(())}
    folder = locate_encoder(model)
    fingerprint_of_model = model_fingerprint(folder)
    key = fingerprint(benchmark=benchmark.identity(), sources=sorted(sources.values()), model=fingerprint_of_model)
    location = Location.parse(out) if out else Location.parse("runs/evaluations") / f"{benchmark.benchmark}-{key}"
    title = f"{benchmark.benchmark}: {model}"
    with console.status(title):
        result = benchmark.score(System(folder))
    print_result(result, benchmark, title, console)
    (location / PREDICTIONS).write_json(result.predictions)
    about = {
        "benchmark": benchmark.benchmark,
        "settings": benchmark.model_dump(mode="json"),
        "model": {"path": str(model), "fingerprint": fingerprint_of_model},
        "sources": sources,
        "scores": result.scores,
        "mean": {metric: result.mean(metric) for metric in _shared(result.scores)},
    }
    (location / RESULT).write_json(about | provenance())
    console.print(f"Result: {location}", soft_wrap=True, highlight=False)
    return location


def model_fingerprint(model: AnyPath) -> str:
    """Of the weights, the tokenizer and the settings in a folder; a name on a model hub stands for itself."""
    from babelray.models.mapped import encoder_of, is_mapped

    location = Location.parse(locate_encoder(model))
    if not location.exists():
        return fingerprint(name=str(model))
    files = {name: (location / name).digest() for name in location.files() if not name.endswith(".md")}
    if is_mapped(model):  # the encoder may lie next to it
        files |= {name: (encoder_of(location) / name).digest() for name in encoder_of(location).files()}
    return fingerprint(files=files)


def _shared(scores: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The metrics that every language has."""
    first, *others = scores.values()
    return [metric for metric in first if all(metric in other for other in others)]


def print_result(result: Result, benchmark: Benchmark, title: str, console: Console) -> None:
    """Print the scores as a table, one line per language."""
    from rich.table import Table

    columns = {name: kind for name, kind in benchmark.columns.items() if name in _shared(result.scores)}
    table = Table("", title=title, title_justify="left", title_style="bold")
    for name, kind in columns.items():
        table.add_column(name.replace("_", " ") + (" %" if kind == "%" else ""), justify="right")
    for language, values in result.scores.items():
        table.add_row(language, *(format_score(values[name], kind) for name, kind in columns.items()))
    if len(result.scores) > 1:
        table.add_section()
        means = [format_score(result.mean(name), kind) for name, kind in columns.items()]
        table.add_row("mean", *means, style="bold")
    console.print(table)


def _of_one_benchmark(
    paths: Sequence[str], console: Console
) -> tuple[list[dict[str, Any]], type[Benchmark], list[str]]:
    """The results, their benchmark, and the languages that all of them have."""
    results = [_load(path) for path in paths]
    name = results[0]["benchmark"]
    for path, result in zip(paths, results, strict=True):
        if result["benchmark"] != name:
            problem = f"{paths[0]} is of {name}, {path} of {result['benchmark']}"
            raise DataError(problem, "Compare results of one benchmark.")
    if len({tuple(sorted(result["sources"].values())) for result in results}) > 1:
        console.print("[yellow]They were measured on different data.[/]")
    languages = [code for code in results[0]["scores"] if all(code in result["scores"] for result in results)]
    if not languages:
        raise DataError("the results have no language in common", "Compare results on the same languages.")
    return results, BENCHMARKS.find(name), languages


def rank_results(paths: Sequence[str], console: Console) -> None:
    """Print several results of a benchmark, the best first, with a mark on those that are not significantly worse."""
    from rich.markdown import Markdown

    from babelray.report.comparison import MARK, SystemScores
    from babelray.report.frame import markdown

    results, kind, languages = _of_one_benchmark(paths, console)
    board = SystemScores(
        label=kind.__name__,
        metric=kind.main_metric.replace("_", " "),
        percent=kind.columns[kind.main_metric] == "%",
        means={
            path: [fmean(result["scores"][code][kind.main_metric] for code in languages)]
            for path, result in zip(paths, results, strict=True)
        },
        example_scores={path: [_example_scores(path, languages)] for path in paths},
    ).board()
    title = f"**{results[0]['benchmark']}**, mean over {len(languages)} languages"
    console.print(Markdown(f"{title}\n\n{markdown(board)}"))
    console.print(MARK, style="dim", highlight=False)


def compare_results(first: str, second: str, console: Console) -> None:
    """Print the main metric of two results of a benchmark by language, and their difference, bold if significant."""
    from rich.table import Table

    results, kind, languages = _of_one_benchmark((first, second), console)
    rows = {c: tuple(result["scores"][c][kind.main_metric] for result in results) for c in languages}
    example_scores = [_example_scores(path, languages) for path in (first, second)]
    form = kind.columns[kind.main_metric]
    title = f"{results[0]['benchmark']}: {kind.main_metric}"
    table = Table("", title=title, title_justify="left", title_style="bold")
    for name in ("first", "second", "difference", "p"):
        table.add_column(name, justify="right")
    for code, (a, b) in rows.items():
        cells = (format_score(a, form), format_score(b, form), _signed(b - a, form), _p(example_scores, code))
        table.add_row(code, *cells)
    table.add_section()
    means = [fmean(values) for values in zip(*rows.values(), strict=True)]
    overall = [format_score(mean, form) for mean in means]
    overall += [_signed(means[1] - means[0], form), _p(example_scores, None)]
    table.add_row("mean", *overall, style="bold")
    console.print(table)
    if all(example_scores):
        console.print(f"p: paired permutation test over examples; bold below {ALPHA}", style="dim", highlight=False)


def _load(path: str) -> dict[str, Any]:
    location = Location.parse(path) / RESULT
    if not location.exists():
        raise DataError(f"{path} is not a result: there is no {RESULT}", "`babelray evaluate --model` writes one.")
    return location.read_json()


def _example_scores(path: str, languages: list[str]) -> ExampleScores:
    return example_scores_of((Location.parse(path) / PREDICTIONS).read_json(), languages)


def _p(example_scores: list[ExampleScores], code: str | None) -> str:
    """The p-value of a language's difference, or of the mean's; empty if there are no answers to test."""
    p = p_value(example_scores[0], example_scores[1], code)
    text = format_p(p)
    return f"[bold]{text}[/]" if p is not None and p < ALPHA else text


def _signed(difference: float, kind: str) -> str:
    colour = "green" if difference > 0 else "red" if difference < 0 else "default"
    text = format_score(difference, kind)
    return f"[{colour}]{'+' if difference > 0 else ''}{text}[/]"
