"""One encoder on one benchmark, without a recipe; and several such results side by side.

What a result holds is described in `evaluation/stored_result.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.encoder.load import locate_encoder
from babelray.errors import BabelrayError, DataError
from babelray.evaluation.benchmark import Result, System
from babelray.evaluation.stored_result import (
    PREDICTIONS,
    RESULT,
    StoredResult,
    differences,
    load_results,
    same_data,
    shared_languages,
)
from babelray.languages import language_name
from babelray.metrics.example_scores import ExampleScores, p_value
from babelray.metrics.format import format_chance, format_p, format_score
from babelray.metrics.intervals import format_interval
from babelray.pipeline.code_version import code_version
from babelray.storage import AnyPath, Location
from babelray.storage.artifact import fingerprint, provenance

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.evaluation.benchmark import Benchmark

ALPHA = 0.05
"""A difference with a smaller p-value is marked."""


def evaluate_model(
    model: AnyPath, benchmark: Benchmark, out: AnyPath | None, console: Console, force: bool = False
) -> Location:
    """Score an encoder, print the scores, and write the result into a folder, by default one named by its content.

    The same result is not computed again, and another result in the folder is not overwritten, unless by `force`.
    """
    if benchmark.needs != ("encoder",):
        others = ", ".join(name for name in benchmark.needs if name != "encoder")
        raise BabelrayError(
            f"{benchmark.benchmark} needs the {others} of a run", "List it under evaluate.benchmarks of a recipe."
        )
    folder = locate_encoder(model)
    about: dict[str, Any] = {
        "benchmark": benchmark.benchmark,
        "settings": benchmark.model_dump(mode="json"),
        "model": {"path": str(model), "fingerprint": model_fingerprint(folder)},
        "sources": {str(location): location.digest() for location in benchmark.sources(())},
    }
    key = fingerprint(
        benchmark=benchmark.identity(),
        sources=sorted(about["sources"].values()),
        model=about["model"]["fingerprint"],
        code=code_version(type(benchmark).__module__, benchmark),
    )
    location = Location.parse(out) if out else Location.parse("runs/evaluations") / f"{benchmark.benchmark}-{key}"
    title = f"{benchmark.benchmark}: {model}"
    if (location / RESULT).exists() and not force:
        stored = StoredResult.load(location)
        _check_same(stored, key, about)
        kept = Result(stored.scores, chance=stored.content["chance"], intervals=stored.content["intervals"])
        print_result(kept, benchmark, title, console)
        note = f"kept: the same encoder, data and settings were measured on {stored.content['created'][:10]}"
        console.print(f"Result: {location} ({note})", soft_wrap=True, highlight=False)
        return location
    with console.status(title):
        result = benchmark.score(System(folder))
    print_result(result, benchmark, title, console)
    for omission in benchmark.omissions():
        console.print(omission, highlight=False, markup=False, soft_wrap=True)
    about |= {
        "fingerprint": key,
        "scores": result.scores,
        "mean": {metric: result.mean(metric) for metric in _shared(result.scores)},
        "intervals": result.confidence(benchmark.main_metric),
        "chance": result.chance,
    }
    (location / RESULT).delete()  # first: a result must not stand beside the predictions of another
    (location / PREDICTIONS).write_json(result.predictions)
    (location / RESULT).write_json(about | provenance())
    console.print(f"Result: {location}", soft_wrap=True, highlight=False)
    return location


def _check_same(stored: StoredResult, key: str, about: Mapping[str, Any]) -> None:
    """Raise an error if a result that is there already is not the one that is asked for."""
    if stored.content.get("fingerprint") == key:
        return
    held = stored.content.get("model", {})
    same_encoder = held.get("fingerprint") == about["model"]["fingerprint"]
    lines = [] if same_encoder else [f"encoder: {held.get('path', 'unknown')}"]
    if stored.benchmark != about["benchmark"]:
        lines.append(f"benchmark: {stored.benchmark}")
    else:
        asked = StoredResult(stored.location, "this command", {**about, "scores": stored.scores})
        lines += differences([replace(stored, name="there"), asked])
    what = "; ".join(lines) or "made by another version of Babelray"
    raise DataError(
        f"{stored.location} holds another result ({what})",
        "Name another folder with --out, or overwrite it with --force evaluate.",
    )


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
    """Print the scores as a table, one line per language: the main metric with its interval and the level of chance."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    columns = {name: kind for name, kind in benchmark.columns.items() if name in _shared(result.scores)}
    intervals = result.confidence(benchmark.main_metric)

    def cells(code: str, values: Mapping[str, float], chance: float | None) -> list[str]:
        row = []
        for name, kind in columns.items():
            row.append(format_score(values[name], kind))
            if name == benchmark.main_metric:
                row += [format_interval(intervals.get(code), kind)] if intervals else []
                row += ["" if chance is None else format_chance(chance, kind)] if result.chance else []
        return row

    rows = [
        [f"{language} {language_name(language)}".strip(), *cells(language, values, result.chance.get(language))]
        for language, values in result.scores.items()
    ]
    if len(result.scores) > 1:
        chance = fmean(result.chance.values()) if result.chance else None
        rows.append(["mean", *cells("", {name: result.mean(name) for name in columns}, chance)])
    headings = [""]
    for name, kind in columns.items():
        headings.append(name.replace("_", " ") + (" %" if kind == "%" else ""))
        if name == benchmark.main_metric:
            headings += ["95 % interval"] if intervals else []
            headings += ["chance"] if result.chance else []
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading, column in zip(headings, zip(*rows, strict=True), strict=True):
        table.add_column(heading, justify="right" if heading else "left", min_width=max(map(len, column)))
    for number, row in enumerate(rows):
        is_mean = number == len(result.scores)
        if is_mean:
            table.add_section()
        table.add_row(*row, style="bold" if is_mean else None)
    console.print(table)


def load_comparable(paths: Sequence[str], allow_differences: bool, console: Console) -> list[StoredResult]:
    """Results that differ in the encoder alone; an error if they differ in more, or a warning if that is allowed."""
    from rich.markup import escape

    results = load_results(paths)
    different = differences(results)
    if different and not allow_differences:
        raise DataError(
            "the results differ in more than the encoder:" + "".join(f"\n  - {line}" for line in different),
            "Measure both in the same way; or give --allow-differences to compare them all the same, on the languages "
            "that all have.",
        )
    for line in different:
        console.print(f"[yellow]warning:[/] they differ in {escape(line)}", highlight=False, soft_wrap=True)
    if (
        len({result.content.get("model", {}).get("fingerprint") for result in results}) == 1
        and "model" in results[0].content
    ):
        console.print("They are of the same encoder.", highlight=False)
    return results


def rank_results(paths: Sequence[str], console: Console, allow_differences: bool = False) -> None:
    """Print several results of a benchmark, the best first, with a mark on those that are not significantly worse."""
    from rich.markdown import Markdown

    from babelray.report.comparison import MARK, SystemScores
    from babelray.report.frame import markdown

    results = load_comparable(paths, allow_differences, console)
    languages, kind, tested = shared_languages(results), results[0].kind, same_data(results)
    board = SystemScores(
        label=kind.__name__,
        metric=kind.main_metric.replace("_", " "),
        percent=kind.columns[kind.main_metric] == "%",
        means={r.name: [fmean(r.scores[code][kind.main_metric] for code in languages)] for r in results},
        example_scores={r.name: [r.example_scores(languages) if tested else {}] for r in results},
    )
    title = f"**{results[0].benchmark}**, mean over {len(languages)} languages"
    console.print(Markdown(f"{title}\n\n{markdown(board.board())}"))
    if board.ranked:
        console.print(MARK, style="dim", highlight=False)


def compare_results(first: str, second: str, console: Console, allow_differences: bool = False) -> None:
    """Print the main metric of two results of a benchmark by language, and their difference, bold if significant."""
    from rich.table import Table

    results = load_comparable((first, second), allow_differences, console)
    languages, kind = shared_languages(results), results[0].kind
    rows = {c: tuple(result.scores[c][kind.main_metric] for result in results) for c in languages}
    examples: list[ExampleScores] = [r.example_scores(languages) if same_data(results) else {} for r in results]
    form = kind.columns[kind.main_metric]
    title = f"{results[0].benchmark}: {kind.main_metric}"
    table = Table("", title=title, title_justify="left", title_style="bold")
    for name in (*(result.name for result in results), "difference", "p"):
        table.add_column(name, justify="right", overflow="fold")
    for code, (a, b) in rows.items():
        table.add_row(code, format_score(a, form), format_score(b, form), _signed(b - a, kind), _p(examples, code))
    table.add_section()
    means = [fmean(values) for values in zip(*rows.values(), strict=True)]
    overall = [format_score(mean, form) for mean in means]
    overall += [_signed(means[1] - means[0], kind), _p(examples, None)]
    table.add_row("mean", *overall, style="bold")
    console.print(table)
    if all(examples):
        console.print(f"p: paired permutation test over examples; bold below {ALPHA}", style="dim", highlight=False)


def _p(example_scores: list[ExampleScores], code: str | None) -> str:
    """The p-value of a language's difference, or of the mean's; empty if there are no answers to test."""
    p = p_value(example_scores[0], example_scores[1], code)
    text = format_p(p)
    return f"[bold]{text}[/]" if p is not None and p < ALPHA else text


def _signed(difference: float, kind: type[Benchmark]) -> str:
    better = -difference if kind.lower_is_better else difference
    colour = "green" if better > 0 else "red" if better < 0 else "default"
    text = format_score(difference, kind.columns[kind.main_metric])
    return f"[{colour}]{'+' if difference > 0 else ''}{text}[/]"
