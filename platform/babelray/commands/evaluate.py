"""One encoder on one benchmark, without a recipe; and several such results side by side.

What a result holds is described in `evaluation/stored_result.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from babelray.api.evaluation import Evaluation, check_comparable, describe, score
from babelray.errors import DataError
from babelray.evaluation.benchmark import Result
from babelray.evaluation.stored_result import RESULT, StoredResult, differences, load_results
from babelray.languages import language_name
from babelray.metrics.format import format_chance, format_p, format_score
from babelray.metrics.intervals import format_interval
from babelray.storage import AnyPath, Location
from babelray.storage.writable import check_writable

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.api.evaluation import Comparison
    from babelray.evaluation.benchmark import Benchmark

PADDING = (0, 1, 0, 0)
BESIDE = 2
"""Characters between two columns."""
ALPHA = 0.05
"""A difference with a smaller p-value is marked."""


def evaluate_model(
    model: AnyPath, benchmark: Benchmark, out: AnyPath | None, console: Console, force: bool = False
) -> Location:
    """Score an encoder, print the scores, and write the result into a folder, by default one named by its content.

    The same result is not computed again, and another result in the folder is not overwritten, unless by `force`.
    """
    about = describe(model, benchmark)
    key = about["fingerprint"]
    location = Location.parse(out) if out else Location.parse("runs/evaluations") / f"{benchmark.benchmark}-{key}"
    title = f"{benchmark.benchmark}: {model}"
    if (location / RESULT).exists() and not force:
        stored = StoredResult.load(location)
        _check_same(stored, key, about)
        print_result(_result_of(stored.content), benchmark, title, console)
        note = f"kept: the same encoder, data and settings were measured on {stored.content['created'][:10]}"
        _print_remarks(Evaluation.load(location), benchmark, console)
        console.print(f"Result: {location} ({note})", soft_wrap=True, highlight=False)
        return location
    check_writable(location, "Name another folder with --out.")
    with console.status(title):
        evaluation = score(model, benchmark, about)
    print_result(_result_of(evaluation.content), benchmark, title, console)
    _print_remarks(evaluation, benchmark, console)
    evaluation.write(location)
    console.print(f"Result: {location}", soft_wrap=True, highlight=False)
    return location


def _print_remarks(evaluation: Evaluation, benchmark: Benchmark, console: Console) -> None:
    for remark in [*benchmark.omissions(), *evaluation.remarks(benchmark)]:
        console.print(remark, highlight=False, markup=False, soft_wrap=True)


def _result_of(content: Mapping[str, Any]) -> Result:
    return Result(content["scores"], chance=content["chance"], intervals=content["intervals"])


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
    for number, part in enumerate(_parts_that_fit(headings, rows, console.width)):
        table = Table(
            title=None if number else title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=PADDING
        )
        for place, width in part.items():
            table.add_column(headings[place], justify="right" if place else "left", width=width)
        for row_number, row in enumerate(rows):
            is_mean = row_number == len(result.scores)
            if is_mean:
                table.add_section()
            table.add_row(*(row[place] for place in part), style="bold" if is_mean else None)
        console.print(table)


def _parts_that_fit(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[dict[int, int]]:
    """The columns, with their widths, of the tables that a wide one is divided into; the first is in each of them.

    Headings are wrapped where they would not fit in a line.
    """
    cells = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    wide = [max(own, cell_len(heading)) for own, heading in zip(cells, headings, strict=True)]
    narrow = [max([own, *map(cell_len, text.split())]) for own, text in zip(cells, headings, strict=True)]

    def fits(widths: Sequence[int]) -> bool:
        return BESIDE + sum(own + BESIDE for own in widths) <= width

    parts = [[0]]
    for place in range(1, len(headings)):
        if len(parts[-1]) > 1 and not fits([narrow[other] for other in (*parts[-1], place)]):
            parts.append([0])
        parts[-1].append(place)
    return [
        {place: (wide if fits([wide[other] for other in part]) else narrow)[place] for place in part} for part in parts
    ]


def load_comparison(paths: Sequence[str], allow_differences: bool, console: Console) -> Comparison:
    """Results that differ in the encoder alone; an error if they differ in more, or a warning if that is allowed."""
    from rich.markup import escape

    comparison = check_comparable(load_results(paths), allow_differences)
    results = comparison.results
    for line in differences(results):
        console.print(f"[yellow]warning:[/] they differ in {escape(line)}", highlight=False, soft_wrap=True)
    if (
        len({result.content.get("model", {}).get("fingerprint") for result in results}) == 1
        and "model" in results[0].content
    ):
        console.print("They are of the same encoder.", highlight=False)
    return comparison


def rank_results(paths: Sequence[str], console: Console, allow_differences: bool = False) -> None:
    """Print several results of a benchmark, the best first, with a mark on those that are not significantly worse."""
    from rich.markdown import Markdown

    from babelray.report.comparison import MARK
    from babelray.report.frame import markdown

    comparison = load_comparison(paths, allow_differences, console)
    title = f"**{comparison.results[0].benchmark}**, mean over {len(comparison.languages)} languages"
    console.print(Markdown(f"{title}\n\n{markdown(comparison.scores.board())}"))
    if comparison.scores.ranked:
        console.print(MARK, style="dim", highlight=False)


def compare_results(first: str, second: str, console: Console, allow_differences: bool = False) -> None:
    """Print the main metric of two results of a benchmark by language, and their difference, bold if significant."""
    from rich.table import Table

    comparison = load_comparison((first, second), allow_differences, console)
    kind = comparison.results[0].kind
    form = kind.columns[kind.main_metric]
    title = f"{comparison.results[0].benchmark}: {kind.main_metric}"
    table = Table("", title=title, title_justify="left", title_style="bold")
    for name in (*comparison.names, "difference", "p"):
        table.add_column(name, justify="right", overflow="fold")
    for code, row in comparison.differences.items():
        if not code:
            table.add_section()
        scores = (format_score(row.first, form), format_score(row.second, form))
        cells = (*scores, _signed(row.difference, kind), _p(row.p))
        table.add_row(code or "mean", *cells, style=None if code else "bold")
    console.print(table)
    if comparison.differences[""].p is not None:
        console.print(f"p: paired permutation test over examples; bold below {ALPHA}", style="dim", highlight=False)


def _p(p: float | None) -> str:
    """The p-value of a difference; empty if there are no answers to test."""
    text = format_p(p)
    return f"[bold]{text}[/]" if p is not None and p < ALPHA else text


def _signed(difference: float, kind: type[Benchmark]) -> str:
    better = -difference if kind.lower_is_better else difference
    colour = "green" if better > 0 else "red" if better < 0 else "default"
    text = format_score(difference, kind.columns[kind.main_metric])
    return f"[{colour}]{'+' if difference > 0 else ''}{text}[/]"
