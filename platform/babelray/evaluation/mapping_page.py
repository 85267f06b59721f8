"""What mapping words in context brought: every method on every task, as a table and a page.

The layout is that of Zhao and Eger ("Constrained Density Matching and Modeling", Tables 1 and 4): the encoder as it is,
then the methods that learn from translations and those that do without, by the mean over languages and by language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from babelray.evaluation.comparison import MARK, TaskScores, markdown
from babelray.evaluation.report_page import escaped, html_table, page

if TYPE_CHECKING:
    from babelray.languages import Language

Groups = Mapping[str, Sequence[str]]
"""Titles of blocks, and the systems in each."""


@dataclass(frozen=True)
class Measured:
    """A task: the scores {system: {language: {measure: value}}}, the measure that is shown, and who is right where."""

    label: str
    main: str
    scores: Mapping[str, Mapping[str, Mapping[str, float]]]
    board: TaskScores

    @property
    def means(self) -> dict[str, float]:
        """Over languages, by system."""
        return {system: fmean(row[self.main] for row in rows.values()) for system, rows in self.scores.items()}

    @property
    def tied(self) -> set[str]:
        """The systems that are not significantly worse than the best; none if that cannot be known."""
        ranked = self.board.ranked
        return {row.system for row in ranked.rows if row.tied} if ranked else set()


def overview(measured: Sequence[Measured], groups: Groups) -> list[list[str]]:
    """A header and a line for each system: the mean of each task's main measure over languages, times 100."""
    columns = [_column(task) for task in measured]
    table = [["", *(f"{task.label}: {task.main.replace('_', ' ')}" for task in measured)]]
    for title, systems in groups.items():
        if title and systems:
            table.append([f"*{title}*", *("" for _ in measured)])
        table += [[system, *(column[system] for column in columns)] for system in systems]
    return table


def _column(task: Measured) -> dict[str, str]:
    means, tied = task.means, task.tied
    return {system: f"{100 * value:.2f}" + (" ●" if system in tied else "") for system, value in means.items()}


def by_language(task: Measured, groups: Groups) -> list[list[str]]:
    """A header and a line for each system: the task's main measure in every language, times 100."""
    systems = [system for some in groups.values() for system in some]
    table = [["", *next(iter(task.scores.values())), "mean"]]
    for system in systems:
        cells = [row[task.main] for row in task.scores[system].values()]
        table.append([system, *(f"{100 * value:.1f}" for value in (*cells, task.means[system]))])
    return table


def mapping_table(measured: Sequence[Measured], groups: Groups) -> str:
    """All tables as Markdown."""
    parts = [f"## Mean over languages\n\n{markdown(overview(measured, groups))}"]
    if any(task.tied for task in measured):
        parts.append(MARK)
    parts += [f"## {task.label}\n\n{markdown(by_language(task, groups))}" for task in measured]
    return "\n\n".join(parts) + "\n"


def mapping_page(name: str, measured: Sequence[Measured], groups: Groups, languages: Mapping[str, Language]) -> str:
    """The page."""
    mark = f"<p>{escaped(MARK)}</p>" if any(task.tied for task in measured) else ""
    body = [
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray: words in context, mapped to the hub. The encoder as it is, "
        "and mapped by each method: supervised ones learn from word pairs of parallel text, unsupervised ones see the "
        "same words unpaired. All figures times 100.</p>",
        f"<section><h2>Mean over languages</h2>{_html(overview(measured, groups))}{mark}</section>",
    ]
    for task in measured:
        head, *lines = by_language(task, groups)
        head = [languages[code].name if code in languages else code for code in head]
        board = _html(task.board.board()) if task.tied else ""
        body.append(f"<section><h2>{escaped(task.label)}</h2>{_html([head, *lines])}{board}</section>")
    return page(name, "".join(body))


def _html(table: Sequence[Sequence[str]]) -> str:
    def cell(text: str) -> str:
        return f"<i>{escaped(text[1:-1])}</i>" if text.startswith("*") else escaped(text)

    return html_table(table[0], [[cell(text) for text in row] for row in table[1:]])
