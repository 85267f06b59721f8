"""The summary that the terminal shows of a complete stage: plain data, which `commands/` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Cell = str | float | tuple[float | None, float | None] | None
"""Text, a number, or a number before and after; None is a dash."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `format` is `%` for fractions, `p` for p-values, `,.0f` and the like for other numbers; empty for text.
    """

    title: str
    format: str = ""
    lower_is_better: bool = False
    """Whether a change to a lower number is an improvement."""


@dataclass(frozen=True)
class Table:
    """Rows of cells. With `mean`, the last row holds the means and is printed apart from the others."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    mean: bool = False
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Summary:
    """Tables, and the files that a user may want to open, by label and path inside the artifact."""

    tables: Sequence[Table] = ()
    files: Mapping[str, str] = field(default_factory=dict)
