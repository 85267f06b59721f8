"""The records of a sweep's trials: one file each, written atomically, so that a killed sweep can resume."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from statistics import fmean
from typing import Any, Literal

from babelray.errors import RecipeError
from babelray.storage import Location, artifact
from babelray.sweeping.space import Metric, Values

State = Literal["running", "done", "stopped", "failed"]


@dataclass(frozen=True)
class Trial:
    """A point of the space with one seed."""

    point: int
    values: Values
    seed: int

    @cached_property
    def key(self) -> str:
        """Its identity, which does not depend on when or in which order trials run."""
        return artifact.fingerprint(values=self.values, seed=self.seed)

    def label(self) -> str:
        """
        >>> Trial(3, {"pretrain.objectives.0.blur": 0.05, "extract.layer": 6}, 1).label()
        'blur 0.05, layer 6, seed 1'
        """
        return ", ".join(
            [*(f"{short_name(path)} {format_value(value)}" for path, value in self.values.items()), f"seed {self.seed}"]
        )


def short_name(path: str) -> str:
    """The last part of a dotted path that is a name.

    >>> short_name("pretrain.objectives.0.blur"), short_name("simulate.t.0")
    ('blur', 't')
    """
    return next((part for part in reversed(path.split(".")) if not part.isdigit()), path)


def format_value(value: Any) -> str:
    """A value or a metric, short and readable.

    >>> format_value(0.1 + 0.2), format_value(1e-05), format_value(None), format_value([{"kind": "mlm"}])
    ('0.3', '1e-05', 'null', '[{kind: mlm}]')
    """
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.4g}"
    return re.sub(r"['\"]", "", str(value))


@dataclass
class Record:
    """A trial and its outcome."""

    trial: Trial
    state: State = "running"
    metrics: dict[str, float] = field(default_factory=dict)
    """All metrics of its stages."""
    reports: list[tuple[int, float]] = field(default_factory=list)
    """Steps of its training with the scheduler's metric."""
    seconds: float = 0.0
    error: str = ""
    progress: str = ""
    """The stage or step of a running trial."""


class Journal:
    """The records of a sweep, in its folder."""

    def __init__(self, location: Location) -> None:
        self.location = location / "trials"

    def read(self) -> dict[str, Record]:
        """The records by their trials' keys, in the order of points and seeds."""
        names = self.location.files() if self.location.exists() else []
        rows = [
            (self.location / name).read_json() for name in names if name.endswith(".json") and not name.startswith(".")
        ]
        rows.sort(key=lambda row: (row["trial"]["point"], row["trial"]["seed"]))
        records = [Record(**row | {"trial": Trial(**row["trial"])}) for row in rows]
        return {record.trial.key: record for record in records}

    def write(self, record: Record) -> None:
        (self.location / f"{record.trial.key}.json").write_json(dataclasses.asdict(record))


def flatten(metrics: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers in nested metrics, by joined names.

    >>> flatten({"bli": {"de": {"p1": 0.5}}, "method": "vecmap"})
    {'bli/de/p1': 0.5}
    """
    numbers: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, dict):
            numbers |= flatten(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            numbers[f"{prefix}{name}"] = float(value)
    return numbers


def metric_value(metrics: dict[str, float], metric: Metric) -> float:
    """The value that a metric names.

    >>> metric_value({"bli/de/p1": 0.5, "bli/fr/p1": 0.7}, Metric(name="bli/*/p1"))
    0.6
    """
    values = [value for name, value in metrics.items() if fnmatchcase(name, metric.name)]
    if values:
        return fmean(values)
    from difflib import get_close_matches

    near = get_close_matches(metric.name, metrics, n=1)
    raise RecipeError(
        f"metrics: no stage of the trial has a metric {metric.name!r}",
        f"Did you mean {near[0]!r}?" if near else f"Metrics: {', '.join(sorted(metrics)[:40])}.",
    )


def metric_means(records: Sequence[Record], metrics: Sequence[Metric]) -> list[float]:
    """Each metric's mean over records, such as those of one point."""
    return [fmean(metric_value(record.metrics, metric) for record in records) for metric in metrics]
