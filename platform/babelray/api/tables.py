"""Results as tables: in a notebook, as a pandas frame, or as a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

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
        """The table as a frame of numbers; shares are between 0 and 1."""
        import pandas

        table = self.table()
        frame = pandas.DataFrame(list(table.rows), columns=[column.title for column in table.columns])
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
        from babelray.report.frame import escaped, html_table

        table = self.table()
        head = [column.title + (" %" if column.format == "%" else "") for column in table.columns]
        formats = [column.format for column in table.columns]
        rows = [[escaped(_format(cell, kind)) for cell, kind in zip(row, formats, strict=True)] for row in table.rows]
        notes = "".join(f"<p><small>{escaped(note)}</small></p>" for note in table.notes)
        return f"<p><b>{escaped(table.title)}</b></p>{html_table(head, rows)}{notes}"


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
