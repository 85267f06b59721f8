"""What a sweep found: its points with means and spreads over seeds, the best one, the Pareto front."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from babelray.sweeping.records import Record, measured, short
from babelray.sweeping.space import Metric, Space, Values


@dataclass(frozen=True)
class Point:
    """A point whose trials are all done: every metric's figures, one for each seed."""

    number: int
    values: Values
    figures: dict[str, list[float]]

    def mean(self, metric: Metric) -> float:
        return fmean(self.figures[metric.name])

    def spread(self, metric: Metric) -> float:
        """The standard deviation over seeds; 0 for a single one."""
        some = self.figures[metric.name]
        return stdev(some) if len(some) > 1 else 0.0


def points(space: Space, records: Iterable[Record]) -> list[Point]:
    """The points of which at least one trial is done, in the order of their numbers."""
    done: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if record.state == "done":
            done[record.trial.point].append(record)
    return [
        Point(
            number,
            some[0].trial.values,
            {metric.name: [measured(record.metrics, metric) for record in some] for metric in space.metrics},
        )
        for number, some in sorted(done.items())
    ]


def best(space: Space, found: Sequence[Point]) -> Point | None:
    """The one with the best mean of the first metric; the first of equal ones."""
    first = space.metrics[0]
    return max(found, key=lambda point: first.sign * point.mean(first), default=None)


def front(space: Space, found: Sequence[Point]) -> list[Point]:
    """The Pareto front: the points that no other is at least as good as in every metric and better in one."""

    def score(point: Point) -> list[float]:
        return [metric.sign * point.mean(metric) for metric in space.metrics]

    def dominates(a: list[float], b: list[float]) -> bool:
        return a != b and all(x >= y for x, y in zip(a, b, strict=True))

    scores = [score(point) for point in found]
    return [
        point for point, own in zip(found, scores, strict=True) if not any(dominates(other, own) for other in scores)
    ]


def of_the_paper(space: Space, found: Sequence[Point]) -> list[Point]:
    """The points that have all that the paper chose; several if it left a parameter open."""
    if not space.paper:
        return []
    return [point for point in found if all(point.values[path] == value for path, value in space.paper.items())]


def names(space: Space) -> dict[str, str]:
    """What each parameter is called: the last part of its path, or all of it where that is not enough."""
    shorts = [short(path) for path in space.parameters]
    return {path: path if shorts.count(name) > 1 else name for path, name in zip(space.parameters, shorts, strict=True)}


def numeric(values: Sequence[Any]) -> bool:
    """Whether all are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
