"""Numbers in tables."""

from __future__ import annotations

import math

from babelray.errors import DataError
from babelray.metrics.word_similarity import parse_number


def checked_number(where: str, column: str, text: str, remedy: str) -> float:
    """The number in a cell; an error that names the cell if it holds none."""
    value = parse_number(text)
    if math.isnan(value):
        raise DataError(f"{where}: {text!r} in column {column!r} is not a number", remedy)
    return value
