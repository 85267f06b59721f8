"""Several ways of training against each other: tables and a page with means and spreads over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from babelray.evaluation import plots
from babelray.evaluation.report import TASKS, escaped, html_table, page
from babelray.evaluation.significance import Leaderboard, leaderboard, over_rows

if TYPE_CHECKING:
    from babelray.evaluation.hits import Hits
    from babelray.languages import Language

START = "before training"
ByTask = Mapping[str, Mapping[str, Mapping[str, float]]]
"""{task: {language: {measure: value}}}"""


@dataclass(frozen=True)
class TaskScores:
    """A task's main measure for each system: the start, with one value, and every variant with one for each seed."""

    label: str
    measure: str
    percent: bool
    means: Mapping[str, Sequence[float]]
    hits: Mapping[str, Sequence[Hits]]
    """The score of each example by language, for each seed; empty where a task has no such thing."""

    def board(self) -> list[list[str]]:
        """A header and a line for each system, the best first where it is known which that is."""
        ranked = self.ranked
        if ranked is None:
            rows = [[name, self._shown(values)] for name, values in self.means.items()]
            return [["", self.measure], *rows]
        table = [["", self.measure, "examples right", "p"]]
        for place, row in enumerate(ranked.rows):
            name = f"{row.system} ●" if row.tied else row.system
            p = "" if not place else "< 0.001" if row.p < 0.001 else f"{row.p:.3f}"
            table.append([name, self._shown(self.means[row.system]), shown([row.mean]), p])
        return table

    @cached_property
    def ranked(self) -> Leaderboard | None:
        """The systems by the examples that they get right; None where that is not known."""
        if not all(all(seeds) for seeds in self.hits.values()):
            return None
        spreads = {name: stdev(values) for name, values in self.means.items() if len(values) > 1}
        averaged = {name: _averaged(seeds) for name, seeds in self.hits.items()}
        return leaderboard(averaged, spread=spreads)

    def _shown(self, values: Sequence[float]) -> str:
        if self.percent:
            return shown(values)
        return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


MARK = (
    "● not significantly worse than the best: paired permutation test over examples, each seed's averaged, Holm's "
    "correction, α = 0.05."
)


def _averaged(seeds: Sequence[Hits]) -> list[float] | Hits:
    """Over seeds; and over languages too where all have the same examples, which are then no independent ones."""
    mean = {code: [fmean(some) for some in zip(*(hits[code] for hits in seeds), strict=True)] for code in seeds[0]}
    return over_rows(mean).tolist() if len({len(hits) for hits in mean.values()}) == 1 else mean


@dataclass(frozen=True)
class Scores:
    """The scores of the encoder that all variants start from, and of every variant's, one for each seed."""

    start: ByTask
    variants: Mapping[str, Sequence[ByTask]]
    listed: Sequence[TaskScores] = ()
    """The tasks that the recipe lists."""

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
    table.append([START, *(shown([scores.start_mean(task, m)]) for task, m, _ in columns)])
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
    parts = [f"## {title}\n\n{markdown(table)}" for title, table in zip(titles, tables, strict=True)]
    parts += [f"## {task.label}\n\n{markdown(task.board())}" for task in scores.listed]
    return "\n\n".join([*parts, *([MARK] if scores.listed else [])]) + "\n"


def markdown(table: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its header."""
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    return "\n".join([lines[0], "|---" * len(table[0]) + "|", *lines[1:]])


def summary(scores: Scores) -> dict[str, float]:
    """The mean of each task's main measure, by variant, for the manifest and the tracking server."""
    measures = [(task, TASKS[task][1]) for task in scores.tasks()]
    start = {f"{task}/before": scores.start_mean(task, measure) for task, measure in measures}
    trained = {
        f"{task}/{variant}": fmean(scores.mean(variant, task, measure))
        for task, measure in measures
        for variant in scores.variants
    }
    listed = {
        f"{task.label}/{'before' if system == START else system}": fmean(values)
        for task in scores.listed
        for system, values in task.means.items()
    }
    return start | trained | listed


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
    body += [f"<section><h2>{escaped(t.label)}</h2>{_html(t.board())}<p>{MARK}</p></section>" for t in scores.listed]
    trace = [["run", "fingerprint"]] + [[n, a.manifest["fingerprint"]] for n, a in inputs.items()]
    body.append(f"<section><h2>Where every figure comes from</h2>{_html(trace)}</section>")
    return page(name, "".join(body))


def _html(table: Sequence[Sequence[str]]) -> str:
    return html_table(table[0], [[escaped(cell) for cell in cells] for cells in table[1:]])
