"""The results of a sweep: its points with means and spreads over seeds, the best one, the Pareto front."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from babelray.errors import RecipeError
from babelray.sweeping.records import Record, metric_value, short_name
from babelray.sweeping.space import Metric, Space, Values


@dataclass(frozen=True)
class Point:
    """A point with completed trials: the values of every metric, one per seed."""

    number: int
    values: Values
    metrics: dict[str, list[float]]

    def mean(self, metric: Metric) -> float:
        return fmean(self.metrics[metric.name])

    def spread(self, metric: Metric) -> float:
        """The standard deviation over seeds; 0 for a single one."""
        values = self.metrics[metric.name]
        return stdev(values) if len(values) > 1 else 0.0


def completed_points(space: Space, records: Iterable[Record]) -> list[Point]:
    """The points of which at least one trial is done, in the order of their numbers."""
    done: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if record.state == "done":
            done[record.trial.point].append(record)
    return [
        Point(
            number,
            trials[0].trial.values,
            {metric.name: [metric_value(record.metrics, metric) for record in trials] for metric in space.metrics},
        )
        for number, trials in sorted(done.items())
    ]


def values_before(space: Space, records: Iterable[Record]) -> dict[str, float]:
    """The value before of each metric that has one, by the metric's name: if it is the same in all trials."""
    done = [record for record in records if record.state == "done"]
    values: dict[str, float] = {}
    for metric in space.metrics:
        if metric.starting is None:
            continue
        with contextlib.suppress(RecipeError):  # the trials have no such metric
            found = [metric_value(record.metrics, metric.starting) for record in done]
            if found and max(found) - min(found) < 1e-9:
                values[metric.name] = found[0]
    return values


def best_point(space: Space, points: Sequence[Point]) -> Point | None:
    """The one with the best mean of the first metric; the first of equal ones."""
    first = space.metrics[0]
    return max(points, key=lambda point: first.sign * point.mean(first), default=None)


def pareto_front(space: Space, points: Sequence[Point]) -> list[Point]:
    """The Pareto front: the points that no other point equals in every metric and exceeds in one."""

    def score(point: Point) -> list[float]:
        return [metric.sign * point.mean(metric) for metric in space.metrics]

    def dominates(a: list[float], b: list[float]) -> bool:
        return a != b and all(x >= y for x, y in zip(a, b, strict=True))

    scores = [score(point) for point in points]
    return [
        point for point, own in zip(points, scores, strict=True) if not any(dominates(other, own) for other in scores)
    ]


def paper_points(space: Space, points: Sequence[Point]) -> list[Point]:
    """The points with the published values; several if the paper left a parameter open."""
    if not space.paper:
        return []
    return [point for point in points if all(point.values[path] == value for path, value in space.paper.items())]


def parameter_names(space: Space) -> dict[str, str]:
    """The name of each parameter: the last part of its path, or all of it where that is ambiguous."""
    shorts = [short_name(path) for path in space.parameters]
    return {path: path if shorts.count(name) > 1 else name for path, name in zip(space.parameters, shorts, strict=True)}


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether all are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
