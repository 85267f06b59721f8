"""The outcome of a simulation: the precision of every method in every kind of world.

Precision is related to word frequency k and to the distance ε between the text that is learned from and the text that
is translated (Zhao and Eger, section 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A method in the worlds of one kind, tested at one distance."""

    method: str
    t: int
    occurrences: int
    epsilon: float

    @property
    def metric(self) -> str:
        return f"p1/t{self.t}/epsilon{self.epsilon:g}/{self.method}"


@dataclass(frozen=True)
class Outcome:
    p1: Mapping[Cell, Sequence[float]]
    """The precision of each run."""
    clouds: Mapping[Cell, Any]
    """Mapped occurrences and their translations, two lists of points, of one run at the smallest distance."""

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]], clouds: Sequence[Mapping[str, Any]] = ()) -> Outcome:
        """Rows of `scores.json`, and of `clouds.json`."""
        return cls({_cell(row): row["p1"] for row in rows}, {_cell(row): row["cloud"] for row in clouds})

    def values(self, name: str) -> list[Any]:
        """The methods in their order; or, from small to large, the values of t, occurrences or epsilon."""
        values = dict.fromkeys(getattr(cell, name) for cell in self.p1)
        return list(values) if name == "method" else sorted(values)

    def near(self) -> tuple[int, float]:
        """The most occurrences, and the smallest distance."""
        return self.values("occurrences")[-1], self.values("epsilon")[0]

    def main(self) -> list[Cell]:
        """With the most occurrences, at the smallest and the largest distance."""
        most, near = self.near()
        ends = dict.fromkeys((near, self.values("epsilon")[-1]))
        return [Cell(m, t, most, e) for t in self.values("t") for e in ends for m in self.values("method")]

    def along(self, name: str, method: str, t: int) -> dict[float, Sequence[float]]:
        """The runs' precision by `occurrences`, at the smallest distance, or by `epsilon`, with most occurrences."""
        most, near = self.near()
        cells = [Cell(method, t, most, near)._replace(**{name: value}) for value in self.values(name)]
        return {getattr(cell, name): self.p1[cell] for cell in cells if cell in self.p1}

    def correlations(self, name: str, method: str, t: int) -> list[float]:
        """Pearson's, of each run; a run whose precision never changes has none."""
        by_value = self.along(name, method, t)
        values = []
        for run in zip(*by_value.values(), strict=True):
            try:
                values.append(correlation(list(by_value), run))
            except StatisticsError:  # fewer than two values, or all the same
                continue
        return values


def _cell(row: Mapping[str, Any]) -> Cell:
    return Cell(*(row[name] for name in Cell._fields))
