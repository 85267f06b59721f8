"""Several ways of training against each other: tables and a page with means and spreads over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from babelray.evaluation import plots
from babelray.evaluation.report import TASKS, escaped, html_table, page

if TYPE_CHECKING:
    from babelray.languages import Language

ByTask = Mapping[str, Mapping[str, Mapping[str, float]]]
"""{task: {language: {measure: value}}}"""


@dataclass(frozen=True)
class Scores:
    """The scores of the encoder that all variants start from, and of every variant's, one for each seed."""

    start: ByTask
    variants: Mapping[str, Sequence[ByTask]]

    def tasks(self) -> list[str]:
        return [task for task in TASKS if self.start.get(task)]

    def mean(self, variant: str, task: str, measure: str) -> list[float]:
        """The mean over languages, for each seed."""
        return [fmean(row[measure] for row in seed[task].values()) for seed in self.variants[variant]]

    def start_mean(self, task: str, measure: str) -> float:
        return fmean(row[measure] for row in self.start[task].values())


COLUMNS = {
    "retrieval": {"mean": "retrieval", "to_hub": "to the hub", "from_hub": "from the hub"},
    "words": {"p1": "words P@1"},
}


def shown(values: Sequence[float]) -> str:
    """Mean and spread (standard deviation over seeds), in per cent.

    >>> shown([0.1, 0.12]), shown([0.1])
    ('11.0 ± 1.4', '10.0')
    """
    return f"{100 * fmean(values):.1f}" + (f" ± {100 * stdev(values):.1f}" if len(values) > 1 else "")


def rows(scores: Scores) -> list[list[str]]:
    """A header, the start, and a line for each variant: every task and measure, the mean over languages."""
    columns = [(task, m, title) for task in scores.tasks() for m, title in COLUMNS[task].items()]
    table = [["", *(title for _, _, title in columns)]]
    table.append(["before training", *(shown([scores.start_mean(task, m)]) for task, m, _ in columns)])
    table += [[name, *(shown(scores.mean(name, task, m)) for task, m, _ in columns)] for name in scores.variants]
    return table


def by_language(scores: Scores, task: str) -> list[list[str]]:
    """A header and a line for each language: the task's main measure before training and for each variant."""
    measure = TASKS[task][1]
    table = [["language", "before", *scores.variants]]
    for code in scores.start[task]:
        cells = [[seed[task][code][measure] for seed in seeds] for seeds in scores.variants.values()]
        table.append([code, shown([scores.start[task][code][measure]]), *map(shown, cells)])
    return table


def comparison_table(scores: Scores) -> str:
    """Both tables as Markdown; figures are per cent, ± is the standard deviation over seeds."""
    tables = [rows(scores), *(by_language(scores, task) for task in scores.tasks())]
    titles = ["Mean over languages", *(TASKS[task][0] for task in scores.tasks())]
    return "\n\n".join(f"## {title}\n\n{_markdown(table)}" for title, table in zip(titles, tables, strict=True)) + "\n"


def _markdown(table: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    return "\n".join([lines[0], "|---" * len(table[0]) + "|", *lines[1:]])


def summary(scores: Scores) -> dict[str, float]:
    """The mean of each task's main measure, by variant, for the manifest and the tracking server."""
    measures = [(task, TASKS[task][1]) for task in scores.tasks()]
    start = {f"{task}/before": scores.start_mean(task, measure) for task, measure in measures}
    return start | {
        f"{task}/{variant}": fmean(scores.mean(variant, task, measure))
        for task, measure in measures
        for variant in scores.variants
    }


def comparison_page(name: str, scores: Scores, languages: Mapping[str, Language], inputs: Mapping[str, Any]) -> str:
    """The page."""
    seeds = len(next(iter(scores.variants.values())))
    body = [
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray comparison: {len(scores.variants)} ways of training, "
        f"{seeds} seed{'s' if seeds > 1 else ''} each, from the same start. Per cent; ± is the standard deviation "
        "over seeds.</p>",
        f"<section><h2>Mean over languages</h2>{_html(rows(scores))}</section>",
    ]
    for task in scores.tasks():
        title, measure, meaning = TASKS[task]
        values = {variant: scores.mean(variant, task, measure) for variant in scores.variants}
        picture = plots.with_spread(values, scores.start_mean(task, measure), title)
        head, *lines = by_language(scores, task)
        table = [head, *([languages[code].name, *cells] for code, *cells in lines)]
        body.append(f"<section><h2>{title}</h2><p>{meaning}</p><figure>{picture}</figure>{_html(table)}</section>")
    trace = [["run", "fingerprint"]] + [[n, a.manifest["fingerprint"]] for n, a in inputs.items()]
    body.append(f"<section><h2>Where every figure comes from</h2>{_html(trace)}</section>")
    return page(name, "".join(body))


def _html(table: Sequence[Sequence[str]]) -> str:
    return html_table(table[0], [[escaped(cell) for cell in cells] for cells in table[1:]])
