"""The report's pictures, as SVG text: colour-blind safe (Okabe and Ito), with a text alternative for each."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean
from textwrap import fill
from typing import Any

BEFORE, AFTER, INK = "#999999", "#0072B2", "#1b1f24"
WIDE = 6.0
"""Inches: a wider plot is not made small enough for a phone, but scrolls in its box."""
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def before_after(
    before: Mapping[str, float],
    after: Mapping[str, float],
    title: str,
    spreads: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """Two bars per language, in per cent; `spreads`: standard deviations over seeds, by version and language."""
    codes = list(after)
    long = max(map(len, codes)) > 3
    figure, (axes,) = _figure(min(9.6, max(5.0, 0.45 * len(codes) + 1.5)), 3.2 if long else 3.0)
    versions = (("before", -0.2, before, BEFORE), ("after", 0.2, after, AFTER))
    for when, offset, values, colour in versions:
        points = [(i, code) for i, code in enumerate(codes) if code in values]
        errors = [100 * (spreads or {}).get(when, {}).get(code, 0.0) for _, code in points]
        axes.bar(
            [i + offset for i, _ in points],
            [100 * values[code] for _, code in points],
            width=0.36,
            color=colour,
            label=when,
            yerr=errors if any(errors) else None,
            error_kw={"elinewidth": 0.9, "ecolor": INK},
        )
    turned = _overlap(codes, figure.get_figwidth() - 1, fontsize=9)
    axes.set_xticks(range(len(codes)), codes, fontsize=9, rotation=90 if turned else 0)
    axes.set_xlim(-0.6, len(codes) - 0.4)
    axes.set_ylabel("%")
    axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0))
    description = "; ".join(
        f"{c} {100 * before[c]:.1f} to {100 * after[c]:.1f}" if c in before else f"{c} {100 * after[c]:.1f} after"
        for c in codes
    )
    return _svg(figure, f"{title}, per cent before and after. {description}.")


def by_layer(means: Mapping[str, Mapping[str, float]], title: str) -> str:
    """A line for each version, in per cent, over the layers."""
    figure, (axes,) = _figure(6.0, 2.8)
    for (when, values), colour in zip(means.items(), (BEFORE, AFTER), strict=False):
        axes.plot(list(values), [100 * value for value in values.values()], marker="o", color=colour, label=when)
    count = len(next(iter(means.values())))
    axes.set_xticks(range(0, count, -(-count // 13)))  # more would touch each other
    axes.set_xlabel("layer")
    axes.set_ylabel("%")
    axes.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, 1.2))
    description = "; ".join(
        f"{w}: {', '.join(f'{100 * v:.1f}' for v in values.values())}" for w, values in means.items()
    )
    return _svg(figure, f"{title}, per cent, from the embedding layer up. {description}.")


def heat_map(matrices: Mapping[str, Mapping[str, Mapping[str, float]]], title: str, metric: str = "P@1") -> str:
    """A square for each version, in per cent: sources down, targets across. Large ones stand below each other."""
    codes = list(next(iter(matrices.values())))
    many = len(codes) > 16
    side = 9.0 if many else max(3.2, 0.24 * len(codes) + 1.2)
    columns, rows = (1, len(matrices)) if many else (len(matrices), 1)
    figure, all_axes = _figure(side * columns + 0.6, side * rows, columns, rows)
    cells = {
        name: [[100 * by_source.get(a, {}).get(b, float("nan")) for b in codes] for a in codes]
        for name, by_source in matrices.items()
    }
    highest = max((cell for lines in cells.values() for line in lines for cell in line if cell == cell), default=1.0)
    for axes, (name, lines) in zip(all_axes, cells.items(), strict=True):
        image = axes.imshow(lines, cmap="viridis", vmin=0, vmax=max(1.0, highest))
        axes.set_xticks(range(len(codes)), codes, rotation=90, fontsize=8)
        axes.set_yticks(range(len(codes)), codes, fontsize=8)
        axes.set_title(name, fontsize=10)
        axes.grid(False)
        axes.spines[:].set_visible(False)
        if len(codes) <= 12:
            for i, line in enumerate(lines):
                for j, cell in enumerate(line):
                    if cell == cell:
                        colour = "white" if cell < 0.6 * highest else "black"
                        axes.text(j, i, f"{cell:.0f}", ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, ax=all_axes, shrink=0.4 if many else 0.8, label=f"{metric}, %")
    description = "; ".join(f"{name}: mean {_mean(lines):.1f}" for name, lines in cells.items())
    return _svg(figure, f"{title}, per cent, from each language (rows) to each (columns). {description}.")


def _mean(rows: Sequence[Sequence[float]]) -> float:
    cells = [cell for row in rows for cell in row if cell == cell]
    return sum(cells) / max(1, len(cells))


def curves(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """One small plot for each loss of a training, and validation metric, by step; empty if there are none."""
    series = dict.fromkeys(name for row in rows for name in row["values"])
    names = [n for n in series if n.startswith(("loss/", "validation/")) and n != "loss/total"]
    if not names:
        return ""
    columns = min(3, len(names))
    figure, all_axes = _figure(3.1 * columns + 0.4, 2.5 * -(-len(names) // columns), columns, -(-len(names) // columns))
    description = []
    for number, (axes, name) in enumerate(itertools.zip_longest(all_axes, names)):
        if name is None:
            axes.set_visible(False)
            continue
        points = [(row["step"], row["values"][name]) for row in rows if name in row["values"]]
        alone = "o" if len(points) == 1 else None
        axes.plot(*zip(*points, strict=True), color=LINES[number % len(LINES)], linewidth=1.8, marker=alone)
        axes.set_title(fill(name.removeprefix("loss/").replace("/", ": "), 32), fontsize=10)
        axes.set_xlabel("step")
        description.append(f"{name.removeprefix('loss/')} from {points[0][1]:.3f} to {points[-1][1]:.3f}")
    return _svg(figure, f"{title}: {'; '.join(description)}.")


def with_spread(values: Mapping[str, Sequence[float]], start: float | None, title: str) -> str:
    """A bar for each variant, in per cent: the mean over seeds, each seed as a dot, and where all of them started."""
    figure, (axes,) = _figure(6.5, 0.32 * len(values) + 0.9)
    for place, (seeds, colour) in enumerate(zip(values.values(), itertools.cycle(LINES), strict=False)):
        axes.barh(place, 100 * fmean(seeds), height=0.65, color=colour, alpha=0.55)
        axes.scatter([100 * value for value in seeds], [place] * len(seeds), color=colour, s=14, zorder=3)
    if start is not None:
        axes.axvline(100 * start, color=BEFORE, linewidth=1.2, linestyle="--", label="before training")
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1))
    axes.set_yticks(range(len(values)), values)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", alpha=0.25)
    axes.set_xlabel("%")
    description = "; ".join(f"{name} {100 * fmean(seeds):.1f}" for name, seeds in values.items())
    return _svg(figure, f"{title}, per cent, mean over seeds. {description}.")


def _overlap(labels: Sequence[str], width: float, fontsize: float) -> bool:
    """Whether labels side by side would touch each other: a letter is about 0.6 times as wide as it is high.

    >>> _overlap(["en", "de"], 4.0, 9), _overlap(["de-en"] * 20, 6.0, 9)
    (False, True)
    """
    return max(map(len, labels), default=0) * 0.6 * fontsize / 72 > 0.9 * width / max(1, len(labels))


def _figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    """A figure, and its plots in a flat list."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(rows, columns, figsize=(width, height), layout="constrained", squeeze=False)
    for one in grid.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(axis="y", alpha=0.25)
        one.set_axisbelow(True)
    return figure, list(grid.flat)


def _svg(figure: Any, alternative: str) -> str:
    import html

    import matplotlib
    from matplotlib import pyplot

    written = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "babelray"}):
        figure.savefig(written, format="svg", metadata={"Date": None}, transparent=True)
    pyplot.close(figure)
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    size = ' class="wide"' if figure.get_figwidth() > WIDE else ""
    return svg.replace("<svg", f'<svg{size} role="img" aria-label="{html.escape(alternative)}"', 1)
