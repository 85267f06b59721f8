"""What exposing brought: word translation by every mixture of static and encoded vectors, as a table and a page; and
word similarity, where there are word pairs that people have rated.

The layout is that of Vulić et al. (2023, Tables 1 to 3 and Figure 2): static vectors alone (λ = 0), the encoder alone
(λ = 1) and both mixed, before tuning (`plain`, the paper's noCL) and after (`tuned`, +CL).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.evaluation import plots
from babelray.evaluation.comparison import markdown
from babelray.evaluation.report_page import escaped, figure, html_table, page

if TYPE_CHECKING:
    from babelray.languages import Language

Grid = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]
"""{language: {plain | tuned: {λ: scores}}}; for word similarity the first key may be two languages, as `de-en`."""
PLAIN, TUNED = "plain", "tuned"
NAMES = {"p1": "P@1 %", "spearman": "ρ × 100"}
COUNTED = {"p1": "words", "spearman": "pairs"}
"""What each measure is a mean or a correlation over."""


def score(grid: Grid, code: str, version: str, share: str, measure: str) -> float | None:
    """A measure of a mixture, times 100, if it was tried."""
    scores = grid[code][version].get(share)
    return 100 * scores[measure] if scores else None


def columns(share: float) -> dict[str, tuple[str, str]]:
    mixed = f"{share:g}"
    return {
        "static": (PLAIN, "0"),
        "plain (λ = 1)": (PLAIN, "1"),
        f"plain (λ = {mixed})": (PLAIN, mixed),
        "tuned (λ = 1)": (TUNED, "1"),
        f"tuned (λ = {mixed})": (TUNED, mixed),
    }


def table(grid: Grid, share: float, measure: str = "p1") -> list[list[str]]:
    """A header, a line for each language, and the mean; the best of a line is marked."""
    chosen = columns(share)
    lines = [["", COUNTED[measure], "covered %", *chosen]]
    values = {code: [score(grid, code, *pair, measure) for pair in chosen.values()] for code in grid}
    for code, cells in values.items():
        scores = next(iter(grid[code][TUNED].values()))
        lines.append([code, str(scores[COUNTED[measure]]), f"{100 * scores['coverage']:.0f}", *_marked(cells)])
    means = [None if None in column else fmean(column) for column in zip(*values.values(), strict=True)]
    return [*lines, ["mean", "", "", *_marked(means)]]


def _marked(cells: Sequence[float | None]) -> list[str]:
    best = max((cell for cell in cells if cell is not None), default=None)
    return ["–" if cell is None else f"**{cell:.1f}**" if cell == best else f"{cell:.1f}" for cell in cells]


def best_shares(grid: Grid, measure: str = "p1") -> list[list[str]]:
    """For each language the share that does best, plain and tuned, and what it gives."""
    lines = [["", "plain: best λ", NAMES[measure], "tuned: best λ", NAMES[measure]]]
    for code, versions in grid.items():
        cells = []
        for version in (PLAIN, TUNED):
            share, scores = max(versions[version].items(), key=lambda tried: tried[1][measure])  # the first of equals
            cells += [share, f"{100 * scores[measure]:.1f}"]
        lines.append([code, *cells])
    return lines


def exposure_table(grid: Grid, share: float, similarity: Grid | None = None) -> str:
    """The tables as Markdown: P@1 in per cent, by CSLS; and Spearman's ρ with people's ratings, times 100."""
    found = [table(grid, share), best_shares(grid)]
    if similarity:
        found += [table(similarity, share, "spearman"), best_shares(similarity, "spearman")]
    return "\n\n".join(map(markdown, found)) + "\n"


def exposure_page(
    name: str, grid: Grid, share: float, languages: Mapping[str, Language], similarity: Grid | None = None
) -> str:
    """The page, with a curve for each language."""
    body = [
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray: lexical knowledge, exposed. Held-out words whose nearest "
        "word in the hub (CSLS) is a translation, per cent. λ is the share of the encoder in the mixture with static "
        "vectors: 0 is static vectors alone, 1 the encoder alone.</p>",
        f"<section><h2>Word translation</h2>{_html(table(grid, share), languages)}</section>",
        f"<section><h2>By the share of the encoder</h2>{figure(curves(grid, share))}"
        f"{_html(best_shares(grid), languages)}</section>",
    ]
    if similarity:
        tables = table(similarity, share, "spearman"), best_shares(similarity, "spearman")
        body.append(
            "<section><h2>Word similarity</h2><p>Spearman's ρ of cosines with people's ratings, times 100.</p>"
            f"{''.join(_html(lines, languages) for lines in tables)}</section>"
        )
    return page(name, "".join(body))


def _html(lines: Sequence[Sequence[str]], languages: Mapping[str, Language]) -> str:
    def cell(text: str) -> str:
        return f"<b>{escaped(text[2:-2])}</b>" if text.startswith("**") else escaped(text)

    rows = [[languages[c].name if c in languages else c, *cells] for c, *cells in lines[1:]]
    return html_table(lines[0], [[cell(text) for text in row] for row in rows])


def curves(grid: Grid, share: float) -> str:
    """A small plot for each language and one for the mean: P@1 against λ, plain and tuned."""
    shares = list(next(iter(grid.values()))[PLAIN])
    series = {code: {v: [100 * grid[code][v][s]["p1"] for s in shares] for v in (PLAIN, TUNED)} for code in grid}
    if len(series) > 1:
        means = {
            v: [fmean(column) for column in zip(*(one[v] for one in series.values()), strict=True)]
            for v in (PLAIN, TUNED)
        }
        series = {"mean": means, **series}
    across = min(4, len(series))
    down = -(-len(series) // across)
    picture, all_axes = plots._figure(3.0 * across + 0.4, 2.5 * down, across, down)
    places = [float(one) for one in shares]
    for axes, (code, lines) in zip(all_axes, series.items(), strict=False):
        for version, colour in ((PLAIN, plots.BEFORE), (TUNED, plots.AFTER)):
            axes.plot(places, lines[version], marker="o", markersize=3, color=colour, label=version)
        axes.axvline(share, color="#D55E00", linewidth=0.8, linestyle=":")
        axes.set_title(code, fontsize=10)
        axes.set_xlabel("λ")
    for axes in all_axes[len(series) :]:
        axes.set_visible(False)
    all_axes[0].legend(frameon=False, fontsize=8)
    told = "; ".join(
        f"{code}: plain from {lines[PLAIN][0]:.1f} to {lines[PLAIN][-1]:.1f}, tuned from {lines[TUNED][0]:.1f} to "
        f"{lines[TUNED][-1]:.1f}, at best {max(lines[TUNED]):.1f}"
        for code, lines in series.items()
    )
    return plots._svg(picture, f"P@1 in per cent against λ. {told}.")
