"""The page of the map stage: every method on every benchmark.

The layout is that of Zhao and Eger ("Constrained Density Matching and Modeling", Tables 1 and 4): the original encoder,
then the methods that learn from translations and those that do without, by the mean over languages and by language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.report.comparison import MARK, SystemScores, system_scores
from babelray.report.frame import escaped, markdown, page, text_table
from babelray.storage.results import BenchmarkResults, read_results

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.storage.artifact import Artifact

Groups = Mapping[str, Sequence[str]]
"""Titles of blocks, and the systems in each."""


@dataclass(frozen=True)
class MappingResults:
    """The results of all systems on a benchmark, the systems that are tied with the best, and a ranking."""

    results: BenchmarkResults
    tied: Sequence[str]
    board: SystemScores

    @property
    def label(self) -> str:
        return self.results.label

    @property
    def title(self) -> str:
        return f"{self.label}: {self.results.main_metric.replace('_', ' ')}"

    def mean(self, system: str) -> float:
        return self.results.mean(system) or 0.0


def render(artifact: Artifact, name: str, languages: Mapping[str, Language]) -> dict[str, str]:
    """The pages of an artifact, by file name."""
    description = (artifact.location / "mapping.json").read_json()
    groups, tied = description["systems"], description["tied"]
    benchmarks = []
    for label, results in read_results(artifact.location).items():
        board = system_scores(results, {system: [system] for system in results.scores}, artifact)
        benchmarks.append(MappingResults(results, tied[label], board))
    return {
        "mapping.html": mapping_page(name, benchmarks, groups, languages),
        "mapping.md": mapping_table(benchmarks, groups),
    }


def overview(benchmarks: Sequence[MappingResults], groups: Groups) -> list[list[str]]:
    """A header and a line for each system: the mean of each main metric over languages, times 100."""
    columns = [_column(benchmark) for benchmark in benchmarks]
    table = [["", *(benchmark.title for benchmark in benchmarks)]]
    for title, systems in groups.items():
        if title and systems:
            table.append([f"*{title}*", *("" for _ in benchmarks)])
        table += [[system, *(column[system] for column in columns)] for system in systems]
    return table


def _column(benchmark: MappingResults) -> dict[str, str]:
    return {
        system: f"{100 * benchmark.mean(system):.2f}" + (" ●" if system in benchmark.tied else "")
        for system in benchmark.results.scores
    }


def by_language(benchmark: MappingResults, groups: Groups) -> list[list[str]]:
    """A header and a line for each system: the main metric of a benchmark in every language, times 100."""
    scores, metric = benchmark.results.scores, benchmark.results.main_metric
    table = [["", *next(iter(scores.values())), "mean"]]
    for system in (system for systems in groups.values() for system in systems):
        cells = [row[metric] for row in scores[system].values()]
        table.append([system, *(f"{100 * value:.1f}" for value in (*cells, benchmark.mean(system)))])
    return table


def mapping_table(benchmarks: Sequence[MappingResults], groups: Groups) -> str:
    """All tables as Markdown."""
    parts = [f"## Mean over languages\n\n{markdown(overview(benchmarks, groups))}"]
    if any(benchmark.tied for benchmark in benchmarks):
        parts.append(MARK)
    parts += [f"## {benchmark.label}\n\n{markdown(by_language(benchmark, groups))}" for benchmark in benchmarks]
    return "\n\n".join(parts) + "\n"


def mapping_page(
    name: str, benchmarks: Sequence[MappingResults], groups: Groups, languages: Mapping[str, Language]
) -> str:
    """The page."""
    mark = f"<p>{escaped(MARK)}</p>" if any(benchmark.tied for benchmark in benchmarks) else ""
    body = [
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray: words in context, mapped to the hub. The original encoder, "
        "and the encoder mapped by each method: supervised ones learn from word pairs of parallel text, unsupervised "
        "ones see the same words unpaired. All figures times 100.</p>",
        f"<section><h2>Mean over languages</h2>{text_table(overview(benchmarks, groups))}{mark}</section>",
    ]
    for benchmark in benchmarks:
        head, *lines = by_language(benchmark, groups)
        head = [languages[code].name if code in languages else code for code in head]
        board = text_table(benchmark.board.board()) if benchmark.tied else ""
        body.append(f"<section><h2>{escaped(benchmark.label)}</h2>{text_table([head, *lines])}{board}</section>")
    return page(name, "".join(body))
