"""One encoder on one task, without a recipe; and two such results side by side.

A result is a folder: `result.json` with the scores by language, the task's settings, and the fingerprints of the
encoder and the data; `predictions.json` with every answer, so that figures can be computed again and errors looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.encoder.load import located
from babelray.errors import DataError
from babelray.evaluation.catalogue import TASKS
from babelray.evaluation.hits import Hits, hits_of, p_value
from babelray.evaluation.report_page import shown
from babelray.stages.artifact import fingerprint, provenance
from babelray.storage import Place

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.evaluation.task import EvaluationTask, Result

RESULT, PREDICTIONS = "result.json", "predictions.json"
SURE = 0.05
"""A difference with a smaller p-value is marked."""


def evaluate_model(model: str, task: EvaluationTask, out: str | None, console: Console) -> Place:
    """Score an encoder, show the scores, and leave the result in a folder; by default one named by what was judged."""
    sources = {str(place): place.digest() for place in task.sources()}
    folder = located(model)
    judged = model_fingerprint(folder)
    key = fingerprint(task=task.identity(), sources=sorted(sources.values()), model=judged)
    place = Place.parse(out) if out else Place.parse("runs/evaluations") / f"{task.task}-{key}"
    with console.status(f"{task.task}: {model}"):
        result = task.score(folder)
    show(result, task, f"{task.task}: {model}", console)
    (place / PREDICTIONS).write_json(result.predictions)
    about = {
        "task": task.task,
        "settings": task.model_dump(mode="json"),
        "model": {"path": model, "fingerprint": judged},
        "sources": sources,
        "scores": result.scores,
        "mean": {measure: result.mean(measure) for measure in _shared(result.scores)},
    }
    (place / RESULT).write_json(about | provenance())
    console.print(f"Result: {place}", soft_wrap=True, highlight=False)
    return place


def model_fingerprint(model: str) -> str:
    """Stands for the weights, the tokenizer and the settings in a folder; a name on a model hub for itself."""
    from babelray.encoder.mapped import encoder_of, is_mapped

    place = Place.parse(located(model))
    if not place.exists():
        return fingerprint(name=model)
    files = {name: (place / name).digest() for name in place.files() if not name.endswith(".md")}
    if is_mapped(model):  # the encoder may lie next to it
        files |= {name: (encoder_of(place) / name).digest() for name in encoder_of(place).files()}
    return fingerprint(files=files)


def _shared(scores: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The measures that every language has."""
    first, *others = scores.values()
    return [measure for measure in first if all(measure in other for other in others)]


def show(result: Result, task: EvaluationTask, title: str, console: Console) -> None:
    """The scores as a table, a line a language."""
    from rich.table import Table

    columns = {name: kind for name, kind in task.columns.items() if name in _shared(result.scores)}
    table = Table("", title=title, title_justify="left", title_style="bold")
    for name, kind in columns.items():
        table.add_column(name.replace("_", " ") + (" %" if kind == "%" else ""), justify="right")
    for language, values in result.scores.items():
        table.add_row(language, *(shown(values[name], kind) for name, kind in columns.items()))
    if len(result.scores) > 1:
        table.add_section()
        means = [shown(result.mean(name), kind) for name, kind in columns.items()]
        table.add_row("mean", *means, style="bold")
    console.print(table)


def _of_one_task(
    paths: Sequence[str], console: Console
) -> tuple[list[dict[str, Any]], type[EvaluationTask], list[str]]:
    """The results, their task, and the languages that all of them have."""
    results = [_load(path) for path in paths]
    for path, result in zip(paths, results, strict=True):
        if result["task"] != results[0]["task"]:
            raise DataError(
                f"{paths[0]} is of {results[0]['task']}, {path} of {result['task']}", "Compare results of one task."
            )
    if len({tuple(sorted(result["sources"].values())) for result in results}) > 1:
        console.print("[yellow]They were measured on different data.[/]")
    languages = [code for code in results[0]["scores"] if all(code in result["scores"] for result in results)]
    if not languages:
        raise DataError("the results have no language in common", "Compare results on the same languages.")
    return results, TASKS[results[0]["task"]], languages


def rank_results(paths: Sequence[str], console: Console) -> None:
    """Several results of a task, the best first; those that are not significantly worse than it are marked."""
    from rich.markdown import Markdown

    from babelray.evaluation.comparison import MARK, TaskScores, markdown

    results, kind, languages = _of_one_task(paths, console)
    board = TaskScores(
        label=kind.__name__,
        measure=kind.main.replace("_", " "),
        percent=kind.columns[kind.main] == "%",
        means={
            path: [fmean(result["scores"][code][kind.main] for code in languages)]
            for path, result in zip(paths, results, strict=True)
        },
        hits={path: [_hits(path, languages)] for path in paths},
    ).board()
    console.print(Markdown(f"**{results[0]['task']}**, mean over {len(languages)} languages\n\n{markdown(board)}"))
    console.print(MARK, style="dim", highlight=False)


def compare_results(first: str, second: str, console: Console) -> None:
    """The main measure of two results of a task by language, and their difference; those that are sure are marked."""
    from rich.table import Table

    results, kind, languages = _of_one_task((first, second), console)
    rows = {c: tuple(result["scores"][c][kind.main] for result in results) for c in languages}
    hits = [_hits(path, languages) for path in (first, second)]
    form = kind.columns[kind.main]
    table = Table("", title=f"{results[0]['task']}: {kind.main}", title_justify="left", title_style="bold")
    for name in ("first", "second", "difference", "p"):
        table.add_column(name, justify="right")
    for code, (a, b) in rows.items():
        table.add_row(code, shown(a, form), shown(b, form), _signed(b - a, form), _p(hits, code))
    table.add_section()
    means = [fmean(values) for values in zip(*rows.values(), strict=True)]
    table.add_row(
        "mean", *(shown(m, form) for m in means), _signed(means[1] - means[0], form), _p(hits, None), style="bold"
    )
    console.print(table)
    if all(hits):
        console.print(f"p: paired permutation test over sentences; bold below {SURE}", style="dim", highlight=False)


def _load(path: str) -> dict[str, Any]:
    place = Place.parse(path) / RESULT
    if not place.exists():
        raise DataError(f"{path} is not a result: there is no {RESULT}", "`babelray evaluate --model` leaves one.")
    return place.read_json()


def _hits(path: str, languages: list[str]) -> Hits:
    return hits_of((Place.parse(path) / PREDICTIONS).read_json(), languages)


def _p(hits: list[Hits], code: str | None) -> str:
    """The p-value of a language's difference, or of the mean's; empty if there are no answers to test."""
    p = p_value(hits[0], hits[1], code)
    if p is None:
        return ""
    text = "< 0.001" if p < 0.001 else f"{p:.3f}"
    return f"[bold]{text}[/]" if p < SURE else text


def _signed(difference: float, kind: str) -> str:
    colour = "green" if difference > 0 else "red" if difference < 0 else "default"
    text = shown(difference, kind)
    return f"[{colour}]{'+' if difference > 0 else ''}{text}[/]"
