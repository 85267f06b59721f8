"""Results as tables: in a notebook, as a pandas frame, or as a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rich.cells import cell_len

from babelray.errors import DataError
from babelray.metrics.format import format_score
from babelray.storage import AnyPath, Location

if TYPE_CHECKING:
    import pandas

    from babelray.pipeline.summary import Cell, Table

MISSING = "–"
ENDINGS = (".csv", ".json", ".html")


class Tabular(ABC):
    """A result that a notebook shows as a table."""

    @abstractmethod
    def table(self) -> Table:
        """The rows and columns that are shown; numbers as they are, before they are rounded."""

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a frame of numbers; shares are between 0 and 1, and a change is two columns."""
        import pandas

        table = self.table()
        frame = pandas.DataFrame(list(table.rows), columns=[column.title for column in table.columns])
        for name in frame.columns[1:]:
            if frame[name].map(lambda cell: isinstance(cell, tuple)).any():
                place = frame.columns.get_loc(name)
                for end, when in ((1, "after"), (0, "before")):
                    cells = [cell[end] if isinstance(cell, tuple) else None for cell in frame[name]]
                    frame.insert(place + 1, f"{name} {when}", cells)
                frame = frame.drop(columns=name)
        return frame.set_index(table.columns[0].title)

    def save(self, path: AnyPath) -> None:
        """Write the table to a `.csv`, `.json` or `.html` file."""
        location = Location.parse(path)
        if not location.name.endswith(ENDINGS):
            raise DataError(f"{path}: the format does not follow from the name", f"End it in {', '.join(ENDINGS)}.")
        if location.name.endswith(".html"):
            location.write_text(self._repr_html_())
        elif location.name.endswith(".csv"):
            location.write_text(self.to_pandas().to_csv())
        else:
            location.write_text(self.to_pandas().to_json(orient="index", indent=2, force_ascii=False) + "\n")

    def _repr_html_(self) -> str:
        return to_html(self.table())

    def __str__(self) -> str:
        return to_text(self.table())


def to_html(table: Table) -> str:
    """A table as a part of a page."""
    from babelray.report.frame import escaped, html_table

    rows = [[escaped(cell) for cell in row] for row in _cells(table)]
    notes = "".join(f"<p><small>{escaped(note)}</small></p>" for note in table.notes)
    return f"<p><b>{escaped(table.title)}</b></p>{html_table(_head(table), rows)}{notes}"


def to_text(table: Table) -> str:
    """A table in columns, for print."""
    lines = [_head(table), *_cells(table)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    aligned = [column.format != "" for column in table.columns]

    def padded(cell: str, width: int, right: bool) -> str:
        space = " " * (width - cell_len(cell))
        return space + cell if right else cell + space

    rows = ("  ".join(map(padded, line, widths, aligned)).rstrip() for line in lines)
    return "\n".join([table.title, *rows, *table.notes])


def _head(table: Table) -> list[str]:
    return [column.title + (" %" if column.format == "%" else "") for column in table.columns]


def _cells(table: Table) -> list[list[str]]:
    formats = [column.format for column in table.columns]
    return [[_format(cell, kind) for cell, kind in zip(row, formats, strict=True)] for row in table.rows]


def _format(cell: Cell, kind: str) -> str:
    """A cell as text.

    >>> _format(0.5, "%"), _format("de", ""), _format(None, "%"), _format((0.5, 0.625), "%")
    ('50.0', 'de', '–', '50.0 → 62.5')
    """
    if isinstance(cell, tuple):
        return " → ".join(_format(part, kind) for part in cell)
    if cell is None:
        return MISSING
    return cell if isinstance(cell, str) else format_score(cell, kind)
