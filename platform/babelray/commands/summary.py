"""Printing the summaries of stages: their tables, then the files that a user may want to open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from babelray.metrics.format import format_score
from babelray.training.model_card import encoder_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from babelray.pipeline.execution import RunResult
    from babelray.pipeline.summary import Cell, Column
    from babelray.pipeline.summary import Table as SummaryTable

MISSING = "–"
BORDER = 3
"""Characters beside the text of a cell."""


def print_results(result: RunResult, console: Console) -> None:
    """Print the summaries of the stages whose artifacts are the results of a run."""
    files: dict[str, str] = {}
    for step, artifact in result.results():
        summary = step.stage.summary(artifact, step.settings)
        for table in summary.tables:
            if table.rows:
                print_table(table, console)
        files |= {label: str(artifact.location / path) for label, path in summary.files.items()}
    if files:
        console.print()
    for label, path in files.items():
        console.print(f"{label + ':':<10} {path}", soft_wrap=True, highlight=False)
    trained = {step.fingerprint for step in result.steps if step.stage.trains_encoder}
    if len(trained) == 1:
        print_usage(str(result.artifacts[trained.pop()].location / "encoder"), console)


def print_usage(encoder: str, console: Console) -> None:
    """Print where the trained encoder is, and how to load it."""
    console.print(f"\nEncoder:   {encoder}", soft_wrap=True, highlight=False)
    for line in encoder_usage(encoder):
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)


def print_table(table: SummaryTable, console: Console) -> None:
    """Print a table with its notes."""
    cells = [[format_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    for number, places in enumerate(_columns_that_fit(table, cells, console.width)):
        rich = Table(title=table.title if number == 0 else None, title_justify="left", title_style="bold")
        for place in places:
            column = table.columns[place]
            rich.add_column(column.title, justify="right" if column.format else "left", overflow="fold")
        for row_number, row in enumerate(cells):
            is_mean = table.mean and row_number == len(cells) - 1
            if is_mean:
                rich.add_section()
            rich.add_row(*(row[place] for place in places), style="bold" if is_mean else None)
        console.print()
        console.print(rich)
    for note in table.notes:
        console.print(note, style="dim", highlight=False, markup=False)


def _columns_that_fit(table: SummaryTable, cells: Sequence[Sequence[Text]], width: int) -> list[list[int]]:
    """The columns of the tables that a wide one is divided into; each begins with those that name its rows."""
    widths = [
        max([row[place].cell_len for row in cells] + [cell_len(word) for word in column.title.split()] + [1]) + BORDER
        for place, column in enumerate(table.columns)
    ]
    names = 2 if table.columns[0].title == "" and len(table.columns) > 2 and not table.columns[1].format else 1
    parts: list[list[int]] = [list(range(names))]
    for place in range(names, len(widths)):
        if len(parts[-1]) > names and 1 + sum(widths[other] for other in (*parts[-1], place)) > width:
            parts.append(list(range(names)))
        parts[-1].append(place)
    return parts


def format_cell(cell: Cell, column: Column) -> Text:
    """A cell as text; a change is green if it is an improvement.

    >>> from babelray.pipeline.summary import Column
    >>> str(format_cell((0.5, 0.625), Column("P@1", "%"))), str(format_cell(12345, Column("words", ",.0f")))
    ('50.0 → 62.5', '12,345')
    """
    if cell is None:
        return Text(MISSING)
    if isinstance(cell, tuple):
        return _format_change(*cell, column)
    return Text(cell if isinstance(cell, str) else format_score(cell, column.format))


def _format_change(before: float | None, after: float | None, column: Column) -> Text:
    if before is None or after is None:
        return Text(MISSING)
    better = after < before if column.lower_is_better else after > before
    colour = "default" if after == before else "green" if better else "red"
    return Text.assemble(
        f"{format_score(before, column.format):>4} → ", (f"{format_score(after, column.format):>4}", colour)
    )
