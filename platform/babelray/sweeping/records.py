"""What is known of a sweep's trials: a file for each, written whole, so that a sweep that was killed can go on."""

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
from babelray.stages import artifact
from babelray.storage import Place
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
        """What it is known by, whenever and in whatever order trials are run."""
        return artifact.fingerprint(values=self.values, seed=self.seed)

    def label(self) -> str:
        """
        >>> Trial(3, {"pretrain.objectives.0.blur": 0.05, "extract.layer": 6}, 1).label()
        'blur 0.05, layer 6, seed 1'
        """
        return ", ".join(
            [*(f"{short(path)} {shown(value)}" for path, value in self.values.items()), f"seed {self.seed}"]
        )


def short(path: str) -> str:
    """The last part of a dotted path that is a name.

    >>> short("pretrain.objectives.0.blur"), short("simulate.t.0")
    ('blur', 't')
    """
    return next((part for part in reversed(path.split(".")) if not part.isdigit()), path)


def shown(value: Any) -> str:
    """A value, or a figure, as short as it can be read.

    >>> shown(0.1 + 0.2), shown(1e-05), shown(None), shown([{"kind": "mlm"}])
    ('0.3', '1e-05', 'null', '[{kind: mlm}]')
    """
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.4g}"
    return re.sub(r"['\"]", "", str(value))


@dataclass
class Record:
    """A trial and what came of it."""

    trial: Trial
    state: State = "running"
    metrics: dict[str, float] = field(default_factory=dict)
    """All figures of its stages."""
    reports: list[tuple[int, float]] = field(default_factory=list)
    """Steps of its training, and what was measured there for the scheduler."""
    seconds: float = 0.0
    error: str = ""
    at: str = ""
    """Where a running trial is."""


class Journal:
    """The records of a sweep, in its folder."""

    def __init__(self, place: Place) -> None:
        self.place = place / "trials"

    def read(self) -> dict[str, Record]:
        """By their trials' keys, in the order of points and seeds."""
        names = self.place.files() if self.place.exists() else []
        rows = [
            (self.place / name).read_json() for name in names if name.endswith(".json") and not name.startswith(".")
        ]
        rows.sort(key=lambda row: (row["trial"]["point"], row["trial"]["seed"]))
        records = [Record(**row | {"trial": Trial(**row["trial"])}) for row in rows]
        return {record.trial.key: record for record in records}

    def write(self, record: Record) -> None:
        (self.place / f"{record.trial.key}.json").write_json(dataclasses.asdict(record))


def flat(metrics: dict[str, Any], above: str = "") -> dict[str, float]:
    """The numbers among nested figures, by joined names.

    >>> flat({"bli": {"de": {"p1": 0.5}}, "method": "vecmap"})
    {'bli/de/p1': 0.5}
    """
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, dict):
            found |= flat(value, f"{above}{name}/")
        elif isinstance(value, int | float):
            found[f"{above}{name}"] = float(value)
    return found


def measured(metrics: dict[str, float], metric: Metric) -> float:
    """The figure that a metric names.

    >>> measured({"bli/de/p1": 0.5, "bli/fr/p1": 0.7}, Metric(name="bli/*/p1"))
    0.6
    """
    found = [value for name, value in metrics.items() if fnmatchcase(name, metric.name)]
    if found:
        return fmean(found)
    from difflib import get_close_matches

    near = get_close_matches(metric.name, metrics, n=1)
    raise RecipeError(
        f"metrics: no stage of the trial gives a figure {metric.name!r}",
        f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(sorted(metrics)[:40])}.",
    )


def means(records: Sequence[Record], metrics: Sequence[Metric]) -> list[float]:
    """Each metric's mean over records, such as those of one point."""
    return [fmean(measured(record.metrics, metric) for record in records) for metric in metrics]
