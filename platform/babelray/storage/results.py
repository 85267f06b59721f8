"""Results of benchmarks in an artifact: written by stages that evaluate, read by their summaries and pages.

results/<label>-<system>.json        scores with intervals and chance, figures, what a page needs to show them
predictions/<label>-<system>.json    the answers, by language
benchmarks.json                      {label: {systems: [...], p: {language: p-value}}}, in order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from babelray.storage import Location

INDEX = "benchmarks.json"
GROUPS = "systems.json"
"""Of a comparison: {system: [run of each seed]}; the first is the start of all others."""
Scores = Mapping[str, Mapping[str, float]]
"""{language: {metric: value}}"""


@dataclass(frozen=True)
class BenchmarkResults:
    """The results of all systems on one benchmark."""

    label: str
    meta: Mapping[str, Any]
    """The description of the benchmark: see `Benchmark.about`."""
    scores: Mapping[str, Scores]
    """By system."""
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By system; see `evaluation.benchmark.Result`."""
    p: Mapping[str, float] = field(default_factory=dict)
    """p-values of the difference of two systems by language, and under the empty name of the mean over languages."""
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """By system and language, the 95 % confidence interval of the main metric, where known; of the mean under the empty
    name."""
    chance: Mapping[str, float] = field(default_factory=dict)
    """By language, what a guess would score by the main metric, where that can be said."""

    @property
    def main_metric(self) -> str:
        return self.meta["main_metric"]

    @property
    def title(self) -> str:
        """The benchmark's, with the label if that is another."""
        title = self.meta["title"]
        return title if self.label == self.meta["benchmark"] else f"{title}: {self.label}"

    def format(self, metric: str = "") -> str:
        """How a metric is printed, the main one by default: `%` or a format specification."""
        return self.meta["columns"].get(metric or self.main_metric, ".3f")

    def metric_title(self, metric: str = "") -> str:
        """The name of a metric in tables, the main one by default, with its unit."""
        metric = metric or self.main_metric
        title = self.meta.get("metric_titles", {}).get(metric, metric.replace("_", " "))
        return title + (", %" if self.format(metric) == "%" else "")

    def mean(self, system: str) -> float | None:
        """The main metric, the mean over languages; None if there is no language."""
        return mean_score(self.scores[system], self.main_metric)

    def means(self, systems: Sequence[str]) -> list[float]:
        """The means of several systems that have one."""
        return [mean for system in systems if (mean := self.mean(system)) is not None]


def mean_score(scores: Scores, metric: str) -> float | None:
    """The mean over languages; None if there is no language."""
    return fmean(values[metric] for values in scores.values()) if scores else None


def result_file(location: Location, label: str, system: str) -> Location:
    return location / "results" / f"{label}-{system}.json"


def predictions_file(location: Location, label: str, system: str) -> Location:
    return location / "predictions" / f"{label}-{system}.json"


def write_index(location: Location, results: Mapping[str, BenchmarkResults]) -> None:
    """List the benchmarks of an artifact."""
    index = {label: {"systems": list(result.scores), "p": dict(result.p)} for label, result in results.items()}
    (location / INDEX).write_json(index)


def read_results(location: Location) -> dict[str, BenchmarkResults]:
    """The results of an artifact, by label."""
    index = (location / INDEX).read_json()
    return {label: read_result(location, label, entry["systems"], entry["p"]) for label, entry in index.items()}


def read_result(
    location: Location, label: str, systems: Sequence[str], p: Mapping[str, float] | None = None
) -> BenchmarkResults:
    """The results of some systems on a benchmark."""
    files = {system: result_file(location, label, system).read_json() for system in systems}
    return BenchmarkResults(
        label=label,
        meta=next(iter(files.values()))["meta"],
        scores={system: content["scores"] for system, content in files.items()},
        figures={system: content["figures"] for system, content in files.items()},
        p=p or {},
        intervals={system: content.get("intervals", {}) for system, content in files.items()},
        chance={code: value for content in files.values() for code, value in content.get("chance", {}).items()},
    )
