"""The page of the expose stage: word translation, and word similarity if there is any, by every mixture of static and
encoded vectors.

The layout is that of Vulić et al. (2023, Tables 1 to 3 and Figure 2): static vectors alone (λ = 0), the encoder alone
(λ = 1) and both mixed, before tuning (`plain`, the paper's noCL) and after (`tuned`, +CL).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from babelray.models.exposure import COUNTED, PLAIN, TUNED, Grid, best_lambda, cells, mean_scores, score_rows
from babelray.report import plots
from babelray.report.frame import Section, escaped, figure, markdown, page, text_table

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.storage.artifact import Artifact

TITLES = {"p1": "P@1 %", "spearman": "ρ × 100"}
CHOSEN = "#D55E00"


def render(artifact: Artifact, name: str, languages: Mapping[str, Language]) -> dict[str, str]:
    """The page and the tables, by file name."""
    lambda_, location = artifact.metrics["lambda"], artifact.location / "similarity.json"
    grid = (artifact.location / "grid.json").read_json()
    similarity = location.read_json() if location.exists() else None
    return {
        "exposure.html": html_page(name, grid, lambda_, languages, similarity),
        "exposure.md": markdown_tables(grid, lambda_, similarity),
    }


def table(grid: Grid, lambda_: float, metric: str = "p1") -> list[list[str]]:
    """A header, a row for each language, and the means; the best of a row is bold."""
    columns, means = cells(lambda_), mean_scores(grid, lambda_, metric)
    titles = ["static", *(f"{version} (λ = {value})" for version, value in list(columns.values())[1:])]
    rows = [
        [row.code, str(row.tested), f"{100 * row.coverage:.0f}", *_marked(row.scores)]
        for row in score_rows(grid, lambda_, metric)
    ]
    mean_row = ["mean", "", "", *_marked([means.get(name) for name in columns])]
    return [["", COUNTED[metric], "covered %", *titles], *rows, mean_row]


def _marked(values: Sequence[float | None]) -> list[str]:
    best = max((value for value in values if value is not None), default=None)
    texts = ("–" if value is None else f"{100 * value:.1f}" for value in values)
    return [
        f"**{text}**" if value is not None and value == best else text
        for text, value in zip(texts, values, strict=True)
    ]


def best_lambdas(grid: Grid, metric: str = "p1") -> list[list[str]]:
    """For each language the best λ, plain and tuned, and its score."""
    rows = [["", "plain: best λ", TITLES[metric], "tuned: best λ", TITLES[metric]]]
    for code in grid:
        row = [code]
        for version in (PLAIN, TUNED):
            value = best_lambda(grid, code, version, metric)
            row += [value, f"{100 * grid[code][version][value][metric]:.1f}"]
        rows.append(row)
    return rows


def markdown_tables(grid: Grid, lambda_: float, similarity: Grid | None = None) -> str:
    """The tables as Markdown: P@1 in per cent, by CSLS; and Spearman's ρ with people's ratings, times 100."""
    tables = [table(grid, lambda_), best_lambdas(grid)]
    if similarity:
        tables += [table(similarity, lambda_, "spearman"), best_lambdas(similarity, "spearman")]
    return "\n\n".join(map(markdown, tables)) + "\n"


def html_page(
    name: str, grid: Grid, lambda_: float, languages: Mapping[str, Language], similarity: Grid | None = None
) -> str:
    """The page, with a curve for each language."""
    curves_and_table = figure(curves(grid, lambda_)) + text_table(best_lambdas(grid), languages)
    sections = [
        Section("Word translation", text_table(table(grid, lambda_), languages)),
        Section("By the weight of the encoder", curves_and_table),
    ]
    if similarity:
        tables = table(similarity, lambda_, "spearman"), best_lambdas(similarity, "spearman")
        explanation = "<p>Spearman's ρ of cosines with people's ratings, times 100.</p>"
        sections.append(
            Section("Word similarity", explanation + "".join(text_table(rows, languages) for rows in tables))
        )
    lead = (
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray: lexical knowledge, exposed. Held-out words whose nearest "
        "word in the hub (CSLS) is a translation, per cent. λ is the weight of the encoder in the mixture with static "
        "vectors: 0 is static vectors alone, 1 the encoder alone.</p>"
    )
    return page(name, lead + "".join(section.html() for section in sections))


def curves(grid: Grid, lambda_: float) -> str:
    """A small plot for each language and one for the mean: P@1 against λ, plain and tuned."""
    lambdas = list(next(iter(grid.values()))[PLAIN])
    series = {code: {v: [100 * grid[code][v][x]["p1"] for x in lambdas] for v in (PLAIN, TUNED)} for code in grid}
    if len(series) > 1:
        means = {
            v: [fmean(column) for column in zip(*(lines[v] for lines in series.values()), strict=True)]
            for v in (PLAIN, TUNED)
        }
        series = {"mean": means, **series}
    return _plot(series, [float(value) for value in lambdas], lambda_)


def _plot(series: Mapping[str, Mapping[str, Sequence[float]]], lambdas: Sequence[float], lambda_: float) -> str:
    columns = min(4, len(series))
    rows = -(-len(series) // columns)
    picture, all_axes = plots._figure(3.0 * columns + 0.4, 2.5 * rows, columns, rows)
    for axes, (code, lines) in zip(all_axes, series.items(), strict=False):
        for version, colour in ((PLAIN, plots.BEFORE), (TUNED, plots.AFTER)):
            axes.plot(lambdas, lines[version], marker="o", markersize=3, color=colour, label=version)
        axes.axvline(lambda_, color=CHOSEN, linewidth=0.8, linestyle=":")
        axes.set_title(code, fontsize=10)
        axes.set_xlabel("λ")
    for axes in all_axes[len(series) :]:
        axes.set_visible(False)
    all_axes[0].legend(frameon=False, fontsize=8)
    description = "; ".join(
        f"{code}: plain from {lines[PLAIN][0]:.1f} to {lines[PLAIN][-1]:.1f}, tuned from {lines[TUNED][0]:.1f} to "
        f"{lines[TUNED][-1]:.1f}, at best {max(lines[TUNED]):.1f}"
        for code, lines in series.items()
    )
    return plots._svg(picture, f"P@1 in per cent against λ. {description}.")
