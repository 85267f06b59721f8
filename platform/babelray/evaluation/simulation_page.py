"""What a simulation showed: tables and a page with the figures of Zhao and Eger (section 4.3).

Figure 1 shows worlds. Figure 2 relates precision to word frequency k and to the distance ε between the text that is
learned from and the text that is translated: (a) and (b) by Pearson's correlation, (c) and (d) as curves over ε. Figure
3 shows mapped occurrences on the translations that they should lie on, and what bootstrapping brings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation, fmean, stdev
from typing import Any, NamedTuple

from babelray.evaluation import plots
from babelray.evaluation.comparison import markdown, shown
from babelray.evaluation.report_page import Section, contents, escaped, figure, html_table, page

COLOURS = (*plots.LINES, "#000000", "#F0E442")
SOURCE, TARGET = plots.LINES[:2]
WORLDS = (1, 2, 3, 4, 5, 6, 8, 10)
"""Degrees that Figure 1 shows."""


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
    def read(cls, rows: Sequence[Mapping[str, Any]]) -> Outcome:
        cells = [Cell(*(row[name] for name in Cell._fields)) for row in rows]
        clouds = {cell: row["cloud"] for cell, row in zip(cells, rows, strict=True) if "cloud" in row}
        return cls({cell: row["p1"] for cell, row in zip(cells, rows, strict=True)}, clouds)

    def values(self, name: str) -> list[Any]:
        """The methods in their order; or, from small to large, the values of t, occurrences or epsilon."""
        found = dict.fromkeys(getattr(cell, name) for cell in self.p1)
        return list(found) if name == "method" else sorted(found)

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
        found = []
        for run in zip(*by_value.values(), strict=True):
            try:
                found.append(correlation(list(by_value), run))
            except StatisticsError:  # fewer than two values, or all the same
                continue
        return found


class Claim(NamedTuple):
    """The paper's: in worlds of a kind, one method does better than another."""

    better: str
    worse: str
    isomorphic: bool = False
    far: bool = False


CLAIMS = (
    Claim("rotation", "real-nvp", isomorphic=True),
    Claim("rotation", "fcnn", isomorphic=True),
    Claim("muse", "gan-real-nvp", isomorphic=True),
    Claim("real-nvp", "rotation"),
    Claim("real-nvp", "fcnn"),
    Claim("gan-real-nvp", "muse"),
    Claim("real-nvp", "gan-real-nvp"),
    Claim("gan-real-nvp-cross-correlation", "gan-real-nvp"),
    Claim("gan-real-nvp-cross-correlation", "muse"),
    Claim("gan-real-nvp-cross-correlation", "gan-real-nvp-graph"),
    Claim("gan-real-nvp-cross-correlation", "gan-real-nvp-procrustes"),
    Claim("muse-cross-correlation", "muse"),
    Claim("rotation", "real-nvp", far=True),
    Claim("muse", "gan-real-nvp", far=True),
)


def verdict(gains: Sequence[float]) -> str:
    """Whether the mean of the runs' differences is above zero, by more than twice its standard error."""
    clear = len(gains) == 1 or abs(fmean(gains)) > 2 * stdev(gains) / len(gains) ** 0.5
    return "undecided" if not clear else "yes" if fmean(gains) > 0 else "no"


def claims(outcome: Outcome) -> list[list[str]]:
    """A header and a line for each order of methods that the paper reports: was it found, and in how many runs."""
    lines = [["world", "better, says the paper", "P@1 %", "worse", "P@1 %", "in our runs"]]
    most, near = outcome.near()
    far = outcome.values("epsilon")[-1]
    for better, worse, isomorphic, distant in CLAIMS:
        for t in (t for t in outcome.values("t") if (t == 1) == isomorphic and (far > near or not distant)):
            cells = [Cell(method, t, most, far if distant else near) for method in (better, worse)]
            if not all(cell in outcome.p1 for cell in cells):
                continue
            a, b = (outcome.p1[cell] for cell in cells)
            wins = sum(x > y for x, y in zip(a, b, strict=True))
            holds = verdict([x - y for x, y in zip(a, b, strict=True)])
            where = f"t = {t}, ε = {cells[0].epsilon:g}"
            lines.append([where, better, shown(a), worse, shown(b), f"{holds} ({wins} of {len(a)})"])
    return lines


def precisions(outcome: Outcome) -> list[list[str]]:
    """A header and a line for each method: P@1 with the most occurrences, near to the training text and far from it."""
    kinds = list(dict.fromkeys((cell.t, cell.epsilon) for cell in outcome.main()))
    lines = [["", *(f"t = {t}, ε = {epsilon:g}" for t, epsilon in kinds)]]
    for method in outcome.values("method"):
        found = [outcome.p1.get(Cell(method, t, outcome.near()[0], epsilon)) for t, epsilon in kinds]
        lines.append([method, *(shown(p1) if p1 else "–" for p1 in found)])
    return lines


def correlation_table(outcome: Outcome) -> list[list[str]]:
    """A header and a line for each method: how precision goes with frequency and with distance."""
    kinds = [(name, t) for name in ("occurrences", "epsilon") for t in outcome.values("t")]
    symbols = {"occurrences": "k", "epsilon": "ε"}
    lines = [["", *(f"{symbols[name]}, t = {t}" for name, t in kinds)]]
    for method in outcome.values("method"):
        found = [outcome.correlations(name, method, t) for name, t in kinds]
        lines.append([method, *(_signed(values) for values in found)])
    return lines


def _signed(values: Sequence[float]) -> str:
    if not values:
        return "–"
    text = f"{fmean(values):+.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
    return text.replace("-", "−")


def titles(outcome: Outcome) -> dict[str, list[list[str]]]:
    most, near = outcome.near()
    return {
        f"P@1 in per cent, {most} occurrences of each word": precisions(outcome),
        f"Correlation of P@1 with k (ε = {near:g}) and with ε (k = {most})": correlation_table(outcome),
        "What the paper found, and whether we did": claims(outcome),
    }


def simulation_table(outcome: Outcome) -> str:
    """All tables as Markdown; ± is the standard deviation over runs."""
    return "\n\n".join(f"## {title}\n\n{markdown(lines)}" for title, lines in titles(outcome).items()) + "\n"


def simulation_page(name: str, outcome: Outcome) -> str:
    """The page."""
    runs = len(next(iter(outcome.p1.values())))
    lead = (
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray simulation: mappings of two languages in the plane, "
        f"{runs} world{'s' if runs > 1 else ''} of each kind. P@1 is the share of the occurrences whose nearest "
        "occurrence in the other language is their own translation. ± is the standard deviation over worlds.</p>"
    )
    sections = [Section(title, _html(lines)) for title, lines in titles(outcome).items()] + figures(outcome)
    return page(name, lead + contents(sections) + "".join(section.html() for section in sections))


def _html(lines: Sequence[Sequence[str]]) -> str:
    return html_table(lines[0], [[escaped(cell) for cell in line] for line in lines[1:]])


def figures(outcome: Outcome) -> list[Section]:
    """The paper's, one a section."""
    most, near = outcome.near()
    where = f"k = {most}, ε = {near:g}"
    found = {
        "Worlds": (worlds(), "Two languages, blue and orange, of three words. t = 1: a rotation."),
        "Correlations": (
            correlations(outcome),
            "Pearson's, of P@1 with frequency and with distance; lines: ± deviation.",
        ),
        "Frequency": (curves(outcome, "occurrences"), f"ε = {near:g}. Bands: ± standard deviation over worlds."),
        "Distance of domains": (curves(outcome, "epsilon"), f"k = {most}. Bands: ± standard deviation over worlds."),
        "Mapped occurrences": (clouds(outcome), f"Blue, on their translations, orange; one world, {where}."),
    }
    for t in outcome.values("t"):
        values = {cell.method: p1 for cell, p1 in outcome.p1.items() if cell[1:] == (t, most, near)}
        found[f"Side by side, t = {t}"] = plots.with_spread(values, None, f"P@1, t = {t}"), f"{where}. Dots: worlds."
    return [Section(title, figure(picture, caption)) for title, (picture, caption) in found.items() if picture]


def worlds() -> str:
    """Figure 1: worlds of the same words, from isomorphic ones to others."""
    from babelray.simulation.density import DensityWorld

    picture, all_axes = plots._figure(10.0, 5.2, 4, 2)
    for axes, t in zip(all_axes, WORLDS, strict=True):
        text = DensityWorld.make(words=3, t=t, turn=60, seed=4).text(60, 0.0, seed=1)
        _scatter(axes, text.source_N2.tolist(), text.target_N2.tolist(), f"t = {t}")
    return plots._svg(picture, f"Occurrences of three words in two languages, for t = {', '.join(map(str, WORLDS))}.")


def clouds(outcome: Outcome) -> str:
    """Figure 3, left: where a method puts occurrences, and where they should be; or nothing."""
    t, (most, near) = outcome.values("t")[-1], outcome.near()
    cells = [cell for cell in outcome.clouds if cell[1:] == (t, most, near)]
    if not cells:
        return ""
    across = min(4, len(cells))
    down = -(-len(cells) // across)
    picture, all_axes = plots._figure(2.6 * across, 2.7 * down, across, down)
    for axes, cell in zip(all_axes, cells, strict=False):
        source, target = outcome.clouds[cell]
        _scatter(axes, source, target, f"{cell.method} {100 * outcome.p1[cell][0]:.1f}")
    for axes in all_axes[len(cells) :]:
        axes.set_visible(False)
    told = "; ".join(f"{cell.method} {100 * outcome.p1[cell][0]:.1f}" for cell in cells)
    return plots._svg(picture, f"Mapped occurrences and their translations at t = {t}; P@1 in per cent: {told}.")


def _scatter(axes: Any, source: Sequence[Sequence[float]], target: Sequence[Sequence[float]], title: str) -> None:
    for points, colour in ((target, TARGET), (source, SOURCE)):
        axes.scatter(*zip(*points, strict=True), s=4, color=colour, alpha=0.5, linewidths=0)
    axes.set_title(title, fontsize=9)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])


def correlations(outcome: Outcome) -> str:
    """Figure 2 (a) and (b): bars for each method, one for each t."""
    methods, degrees = outcome.values("method"), outcome.values("t")
    picture, all_axes = plots._figure(10.0, 3.2, 2)
    told = []
    for axes, name in zip(all_axes, ("occurrences", "epsilon"), strict=True):
        for number, (t, colour) in enumerate(zip(degrees, COLOURS * len(degrees), strict=False)):
            by_method = {method: found for method in methods if (found := outcome.correlations(name, method, t))}
            places = [methods.index(method) + 0.8 * (number + 0.5) / len(degrees) - 0.4 for method in by_method]
            means = [fmean(found) for found in by_method.values()]
            spread = [stdev(found) if len(found) > 1 else 0.0 for found in by_method.values()]
            axes.bar(
                places,
                means,
                0.75 / len(degrees),
                color=colour,
                label=f"t = {t}",
                yerr=spread,
                error_kw={"elinewidth": 0.9},
            )
            told += [f"{name}, t = {t}, {m} {mean:.2f}" for m, mean in zip(by_method, means, strict=True)]
        axes.axhline(0, color=plots.INK, linewidth=0.8)
        axes.set_ylim(-1.1, 1.1)
        axes.set_xticks(range(len(methods)), methods, rotation=90, fontsize=8)
        axes.set_title({"occurrences": "with k", "epsilon": "with ε"}[name], fontsize=10)
    all_axes[0].legend(frameon=False, fontsize=8)
    return plots._svg(picture, f"Pearson's correlation of precision. {'; '.join(told)}.")


def curves(outcome: Outcome, name: str) -> str:
    """Figure 2 (c) and (d): a plot for each t, a line for each method, with the spread over runs; or nothing."""
    degrees = outcome.values("t")
    if len(outcome.values(name)) < 2:
        return ""
    picture, all_axes = plots._figure(5.0 * len(degrees), 3.6, len(degrees))
    told = []
    for axes, t in zip(all_axes, degrees, strict=True):
        for method, colour in zip(outcome.values("method"), COLOURS * len(outcome.values("method")), strict=False):
            by_value = outcome.along(name, method, t)
            if len(by_value) < 2:
                continue
            means = [100 * fmean(p1) for p1 in by_value.values()]
            spread = [100 * stdev(p1) if len(p1) > 1 else 0.0 for p1 in by_value.values()]
            axes.plot(list(by_value), means, color=colour, label=method, linewidth=1.6)
            low = [mean - some for mean, some in zip(means, spread, strict=True)]
            high = [mean + some for mean, some in zip(means, spread, strict=True)]
            axes.fill_between(list(by_value), low, high, color=colour, alpha=0.12, linewidth=0)
            told.append(f"t = {t}, {method} from {means[0]:.1f} to {means[-1]:.1f}")
        axes.set_title(f"t = {t}", fontsize=10)
        axes.set_xlabel({"occurrences": "k, occurrences of each word", "epsilon": "ε, distance of the domains"}[name])
        axes.set_ylabel("P@1, %")
        axes.set_ylim(0, 103)
    all_axes[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plots._svg(picture, f"P@1 in per cent. {'; '.join(told)}.")
