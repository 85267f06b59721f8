"""The page of a simulation: tables, and the figures of Zhao and Eger (section 4.3).

Figure 1 shows worlds. Figure 2 relates precision to word frequency k and to the distance ε between the text that is
learned from and the text that is translated: (a) and (b) by Pearson's correlation, (c) and (d) as curves over ε. Figure
3 shows mapped occurrences beside their translations, and the effect of bootstrapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from babelray.report import plots
from babelray.report.frame import Section, contents, escaped, figure, markdown, page, text_table
from babelray.simulation.outcome import Outcome
from babelray.simulation.tables import tables

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.storage.artifact import Artifact

COLOURS = (*plots.LINES, "#000000", "#F0E442")
SOURCE, TARGET = plots.LINES[:2]
WORLDS = (1, 2, 3, 4, 5, 6, 8, 10)
"""Degrees that Figure 1 shows."""


def render(artifact: Artifact, name: str, languages: Mapping[str, Language]) -> dict[str, str]:
    """The pages of an artifact, by file name."""
    scores, clouds = ((artifact.location / f"{part}.json").read_json() for part in ("scores", "clouds"))
    outcome = Outcome.from_rows(scores, clouds)
    return {"simulation.html": simulation_page(name, outcome), "simulation.md": simulation_table(outcome)}


def simulation_table(outcome: Outcome) -> str:
    """All tables as Markdown; ± is the standard deviation over runs."""
    return "\n\n".join(f"## {title}\n\n{markdown(lines)}" for title, lines in tables(outcome).items()) + "\n"


def simulation_page(name: str, outcome: Outcome) -> str:
    """The page."""
    runs = len(next(iter(outcome.p1.values())))
    lead = (
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray simulation: mappings of two languages in the plane, "
        f"{runs} world{'s' if runs > 1 else ''} of each kind. P@1 is the share of the occurrences whose nearest "
        "occurrence in the other language is their own translation. ± is the standard deviation over worlds.</p>"
    )
    sections = [Section(title, text_table(lines)) for title, lines in tables(outcome).items()] + figures(outcome)
    return page(name, lead + contents(sections) + "".join(section.html() for section in sections))


def figures(outcome: Outcome) -> list[Section]:
    """The figures of the paper, one per section."""
    most, near = outcome.near()
    where = f"k = {most}, ε = {near:g}"
    pictures = {
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
        pictures[f"Side by side, t = {t}"] = plots.with_spread(values, None, f"P@1, t = {t}"), f"{where}. Dots: worlds."
    return [Section(title, figure(picture, caption)) for title, (picture, caption) in pictures.items() if picture]


def worlds() -> str:
    """Figure 1: worlds of the same words, from isomorphic ones to others."""
    from babelray.simulation.density import DensityWorld

    picture, all_axes = plots._figure(10.0, 5.2, 4, 2)
    for axes, t in zip(all_axes, WORLDS, strict=True):
        text = DensityWorld.make(words=3, t=t, turn=60, seed=4).text(60, 0.0, seed=1)
        _scatter(axes, text.source_N2.tolist(), text.target_N2.tolist(), f"t = {t}")
    return plots._svg(picture, f"Occurrences of three words in two languages, for t = {', '.join(map(str, WORLDS))}.")


def clouds(outcome: Outcome) -> str:
    """Figure 3, left: the mapped occurrences of each method and their translations; empty if there are none."""
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
    text = "; ".join(f"{cell.method} {100 * outcome.p1[cell][0]:.1f}" for cell in cells)
    return plots._svg(picture, f"Mapped occurrences and their translations at t = {t}; P@1 in per cent: {text}.")


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
    texts = []
    for axes, name in zip(all_axes, ("occurrences", "epsilon"), strict=True):
        for number, (t, colour) in enumerate(zip(degrees, COLOURS * len(degrees), strict=False)):
            by_method = {m: values for m in methods if (values := outcome.correlations(name, m, t))}
            positions = [methods.index(method) + 0.8 * (number + 0.5) / len(degrees) - 0.4 for method in by_method]
            means = [fmean(values) for values in by_method.values()]
            spread = [stdev(values) if len(values) > 1 else 0.0 for values in by_method.values()]
            axes.bar(
                positions,
                means,
                0.75 / len(degrees),
                color=colour,
                label=f"t = {t}",
                yerr=spread,
                error_kw={"elinewidth": 0.9},
            )
            texts += [f"{name}, t = {t}, {m} {mean:.2f}" for m, mean in zip(by_method, means, strict=True)]
        axes.axhline(0, color=plots.INK, linewidth=0.8)
        axes.set_ylim(-1.1, 1.1)
        axes.set_xticks(range(len(methods)), methods, rotation=90, fontsize=8)
        axes.set_title({"occurrences": "with k", "epsilon": "with ε"}[name], fontsize=10)
    all_axes[0].legend(frameon=False, fontsize=8)
    return plots._svg(picture, f"Pearson's correlation of precision. {'; '.join(texts)}.")


def curves(outcome: Outcome, name: str) -> str:
    """Figure 2 (c) and (d): a plot for each t, a line for each method, with the spread over runs."""
    degrees = outcome.values("t")
    if len(outcome.values(name)) < 2:
        return ""
    picture, all_axes = plots._figure(5.0 * len(degrees), 3.6, len(degrees))
    texts = []
    for axes, t in zip(all_axes, degrees, strict=True):
        for method, colour in zip(outcome.values("method"), COLOURS * len(outcome.values("method")), strict=False):
            by_value = outcome.along(name, method, t)
            if len(by_value) < 2:
                continue
            means = [100 * fmean(p1) for p1 in by_value.values()]
            spread = [100 * stdev(p1) if len(p1) > 1 else 0.0 for p1 in by_value.values()]
            axes.plot(list(by_value), means, color=colour, label=method, linewidth=1.6)
            low = [mean - deviation for mean, deviation in zip(means, spread, strict=True)]
            high = [mean + deviation for mean, deviation in zip(means, spread, strict=True)]
            axes.fill_between(list(by_value), low, high, color=colour, alpha=0.12, linewidth=0)
            texts.append(f"t = {t}, {method} from {means[0]:.1f} to {means[-1]:.1f}")
        axes.set_title(f"t = {t}", fontsize=10)
        axes.set_xlabel({"occurrences": "k, occurrences of each word", "epsilon": "ε, distance of the domains"}[name])
        axes.set_ylabel("P@1, %")
        axes.set_ylim(0, 103)
    all_axes[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plots._svg(picture, f"P@1 in per cent. {'; '.join(texts)}.")
