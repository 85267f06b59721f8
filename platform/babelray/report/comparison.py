"""Several ways of training against each other: tables and a page with means and spreads over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from babelray.metrics.example_scores import example_scores_of
from babelray.metrics.significance import Leaderboard, leaderboard, over_rows
from babelray.report import plots
from babelray.report.frame import escaped, figure, format_p, format_score, markdown, page, text_table
from babelray.storage.results import GROUPS, predictions_file, read_results

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.metrics.example_scores import ExampleScores
    from babelray.storage.artifact import Artifact
    from babelray.storage.results import BenchmarkResults

MARK = (
    "● not significantly worse than the best: paired permutation test over examples, each seed's averaged, Holm's "
    "correction, α = 0.05."
)


def format_mean(values: Sequence[float], format_spec: str = "%") -> str:
    """Mean and standard deviation over seeds, in per cent by default.

    >>> format_mean([0.1, 0.12]), format_mean([0.1])
    ('11.0 ± 1.4', '10.0')
    """
    spread = f" ± {format_score(stdev(values), format_spec)}" if len(values) > 1 else ""
    return format_score(fmean(values), format_spec) + spread


@dataclass(frozen=True)
class SystemScores:
    """A benchmark's main metric for each system, with a value for each seed."""

    label: str
    metric: str
    percent: bool
    means: Mapping[str, Sequence[float]]
    example_scores: Mapping[str, Sequence[ExampleScores]]
    """The score of each example by language, for each seed; empty where a benchmark has no such thing."""

    def board(self) -> list[list[str]]:
        """A header and a line for each system, the best first where examples have scores."""
        kind = "%" if self.percent else ".3f"
        ranked = self.ranked
        if ranked is None:
            rows = [[name, format_mean(values, kind)] for name, values in self.means.items()]
            return [["", self.metric], *rows]
        table = [["", self.metric, "examples right", "p"]]
        for place, row in enumerate(ranked.rows):
            name = f"{row.system} ●" if row.tied else row.system
            p = format_p(row.p) if place else ""
            table.append([name, format_mean(self.means[row.system], kind), format_mean([row.mean]), p])
        return table

    @cached_property
    def ranked(self) -> Leaderboard | None:
        """The systems by the examples that they get right; None where that is not known."""
        if not all(all(seeds) for seeds in self.example_scores.values()):
            return None
        spreads = {name: stdev(values) for name, values in self.means.items() if len(values) > 1}
        averaged = {name: _averaged(seeds) for name, seeds in self.example_scores.items()}
        return leaderboard(averaged, spread=spreads)


def _averaged(seeds: Sequence[ExampleScores]) -> list[float] | ExampleScores:
    """Over seeds; and over languages too where all have the same examples, which are then no independent ones."""
    mean = {
        code: [fmean(scores) for scores in zip(*(example_scores[code] for example_scores in seeds), strict=True)]
        for code in seeds[0]
    }
    return over_rows(mean).tolist() if len({len(scores) for scores in mean.values()}) == 1 else mean


@dataclass(frozen=True)
class Comparison:
    """The results of all runs, and the runs of each system; the first system is the start of all others."""

    groups: Mapping[str, Sequence[str]]
    """{system: [run of each seed]}"""
    results: Mapping[str, BenchmarkResults]
    boards: Mapping[str, SystemScores]

    @property
    def start(self) -> str:
        return next(iter(self.groups))


def read_comparison(artifact: Artifact) -> Comparison:
    """The data of a compare stage."""
    groups = (artifact.location / GROUPS).read_json()
    results = {
        label: result for label, result in read_results(artifact.location).items() if all(result.scores.values())
    }
    boards = {label: system_scores(result, groups, artifact) for label, result in results.items()}
    return Comparison(groups, results, boards)


def system_scores(result: BenchmarkResults, groups: Mapping[str, Sequence[str]], artifact: Artifact) -> SystemScores:
    """The main metric of a benchmark for each group of runs, and the score of each example."""
    languages = list(next(iter(result.scores.values())))
    predictions = {name: predictions_file(artifact.location, result.label, name).read_json() for name in result.scores}
    return SystemScores(
        label=result.label,
        metric=result.metric_title().removesuffix(", %"),
        percent=result.format() == "%",
        means={group: result.means(names) for group, names in groups.items()},
        example_scores={
            group: [example_scores_of(predictions[name], languages) for name in names]
            for group, names in groups.items()
        },
    )


def render(artifact: Artifact, name: str, languages: Mapping[str, Language]) -> dict[str, str]:
    """The pages of a comparison."""
    comparison = read_comparison(artifact)
    inputs = {run: entry["fingerprint"] for run, entry in artifact.manifest["inputs"].items()}
    return {
        "comparison.html": comparison_page(name, comparison, languages, inputs),
        "comparison.md": comparison_table(comparison),
    }


def mean_table(comparison: Comparison) -> list[list[str]]:
    """A header and a line for each system: the main metric of every benchmark, the mean over languages."""
    results = comparison.results.values()
    table = [["", *(f"{result.label}: {result.metric_title()}" for result in results)]]
    for group, names in comparison.groups.items():
        table.append([group, *(format_mean(result.means(names), result.format()) for result in results)])
    return table


def by_language(comparison: Comparison, result: BenchmarkResults) -> list[list[str]]:
    """A header and a line for each language: the benchmark's main metric for each system."""
    metric, kind = result.main_metric, result.format()
    table = [["language", *comparison.groups]]
    for code in next(iter(result.scores.values())):
        cells = ([result.scores[name][code][metric] for name in names] for names in comparison.groups.values())
        table.append([code, *(format_mean(values, kind) for values in cells)])
    return table


def comparison_table(comparison: Comparison) -> str:
    """All tables as Markdown; ± is the standard deviation over seeds."""
    parts = [f"## Mean over languages\n\n{markdown(mean_table(comparison))}"]
    for label, result in comparison.results.items():
        parts.append(f"## {result.title}\n\n{markdown(by_language(comparison, result))}")
        if comparison.boards[label].ranked:
            parts.append(markdown(comparison.boards[label].board()))
    return "\n\n".join([*parts, MARK]) + "\n"


def comparison_page(
    name: str, comparison: Comparison, languages: Mapping[str, Language], inputs: Mapping[str, str]
) -> str:
    """The page; `inputs`: the fingerprints of the runs."""
    variants = {group: names for group, names in comparison.groups.items() if group != comparison.start}
    seeds = len(next(iter(variants.values())))
    body = [
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray comparison: {len(variants)} ways of training, "
        f"{seeds} seed{'s' if seeds > 1 else ''} each, from the same start. ± is the standard deviation over "
        "seeds.</p>",
        f"<section><h2>Mean over languages</h2>{text_table(mean_table(comparison))}</section>",
    ]
    for label, result in comparison.results.items():
        parts = [f"<p>{escaped(result.meta['description'])}</p>"]
        if result.format() == "%":
            values = {group: result.means(names) for group, names in variants.items()}
            parts.append(figure(plots.with_spread(values, result.mean(comparison.start), result.title)))
        parts.append(text_table(by_language(comparison, result), languages))
        if comparison.boards[label].ranked:
            parts.append(f"{text_table(comparison.boards[label].board())}<p>{MARK}</p>")
        body.append(f"<section><h2>{escaped(result.title)}</h2>{''.join(parts)}</section>")
    trace = [["run", "fingerprint"], *([run, fingerprint] for run, fingerprint in inputs.items())]
    body.append(f"<section><h2>Where every figure comes from</h2>{text_table(trace)}</section>")
    return page(name, "".join(body))
