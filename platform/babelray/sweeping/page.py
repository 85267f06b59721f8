"""The page of a sweep: the best point, every parameter's effect and importance, the Pareto front, every trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from babelray.evaluation import plots
from babelray.evaluation.report_page import Section, contents, duration, escaped, figure, html_table, page
from babelray.sweeping.importance import importance
from babelray.sweeping.records import Record, shown
from babelray.sweeping.results import Point, best, front, names, of_the_paper, points
from babelray.sweeping.space import Metric, Range, Space

BEST, PAPER = "#D55E00", "#009E73"
NAMED = 12
"""Of more points the front shows no numbers."""


def sweep_page(space: Space, records: Sequence[Record]) -> str:
    """The page, whatever came of the trials."""
    found = points(space, records)
    counts = {state: sum(record.state == state for record in records) for state in ("done", "stopped", "failed")}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"
    sections = [_trials(space, records)]
    if found:
        several = len(space.metrics) > 1
        sections = [
            _best(space, found),
            _effects(space, found),
            _importances(space, found),
            *([Section("Pareto front", _front(space, found))] if several else []),
            *sections,
        ]
    seeds = f"{len(space.seeds)} seed{'s' if len(space.seeds) > 1 else ''}"
    over = ", ".join(names(space).values())
    head = (
        f"<h1>{escaped(space.name)}</h1><p class='lead'>Babelray sweep over {escaped(over)}: "
        f"{len({record.trial.point for record in records})} points, {seeds} each; trials: {told}. "
        "± is the standard deviation over seeds.</p>"
    )
    return page(space.name, head + contents(sections) + "".join(section.html() for section in sections))


def with_spread(point: Point, metric: Metric) -> str:
    """A mean, with the spread over seeds if there are several.

    >>> with_spread(Point(0, {}, {"x": [0.1, 0.12]}), Metric(name="x"))
    '0.11 ± 0.01414'
    """
    spread = point.spread(metric)
    return (
        f"{shown(point.mean(metric))} ± {shown(spread)}"
        if len(point.figures[metric.name]) > 1
        else shown(point.mean(metric))
    )


def table(space: Space, found: Sequence[Point]) -> list[list[str]]:
    """A header and a line for each point."""
    head = ["point", *names(space).values(), *(metric.title for metric in space.metrics)]
    return [head] + [
        [
            str(point.number),
            *(shown(point.values[path]) for path in space.parameters),
            *(with_spread(point, metric) for metric in space.metrics),
        ]
        for point in found
    ]


def _html(lines: Sequence[Sequence[str]]) -> str:
    return html_table(lines[0], [[escaped(cell) for cell in row] for row in lines[1:]])


def _best(space: Space, found: Sequence[Point]) -> Section:
    """The best point beside the best of those that have what the paper chose."""
    first = space.metrics[0]
    chosen, published = best(space, found), best(space, of_the_paper(space, found))
    assert chosen is not None
    lines = table(space, [chosen] if published in (chosen, None) else [chosen, published])
    for line, name in zip(lines, ("", "best", "as in the paper"), strict=False):
        line.insert(0, name)
    remark = "What the paper chose was not tried." if space.paper else ""
    if published is chosen:
        remark = "The best point is what the paper chose."
    elif published is not None:
        gain = f"{chosen.mean(first) - published.mean(first):+.4g}".replace("-", "−")
        spread = max(chosen.spread(first), published.spread(first))
        remark = f"From what the paper chose to the best: {first.title} {gain}."
        remark += f" The larger of the two spreads over seeds is {shown(spread)}." if spread else ""
    return Section("Best", f"{_html(lines)}<p>{escaped(remark)}</p>")


def _effects(space: Space, found: Sequence[Point]) -> Section:
    first = space.metrics[0]
    parts = [figure(parallel(space, found), "Every line is a point, the darker the better; the best in orange.")]
    parts += [figure(effect(space, found, metric)) for metric in space.metrics]
    lines = f"<p>Judged by {escaped(first.title)}, {'more' if first.mode == 'max' else 'less'} is better.</p>"
    return Section("Parameters", lines + "".join(parts))


def places(values: Sequence[Any], given: Range | None = None) -> tuple[list[float], list[float], list[str]]:
    """Where values stand on an axis, its ticks, and their names. Listed values stand side by side, in their order."""
    if given is not None and given.values is not None:
        kinds = [one for one in given.values if one in values]
        return [float(kinds.index(v)) for v in values], list(map(float, range(len(kinds)))), list(map(shown, kinds))
    log = given is not None and given.log_uniform is not None
    stand = [math.log10(value) for value in values] if log else [float(value) for value in values]
    low, high = min(stand), max(stand)
    ticks = [low + (high - low) * i / 4 for i in range(5)] if high > low else [low]
    return stand, ticks, [shown(10**tick if log else tick) for tick in ticks]


def parallel(space: Space, found: Sequence[Point]) -> str:
    """Parallel coordinates: an axis for each parameter and each metric, a line for each point."""
    from matplotlib import colormaps

    first = space.metrics[0]
    titles = [*names(space).values(), *(metric.title for metric in space.metrics)]
    columns = [places([point.values[path] for point in found], given) for path, given in space.parameters.items()]
    columns += [places([point.mean(metric) for point in found]) for metric in space.metrics]
    picture, (axes,) = plots._figure(max(5.0, 1.6 * len(titles)), 3.4)
    scaled = []
    for x, (stand, ticks, labels) in enumerate(columns):
        low, high = min(ticks), max(ticks)
        width = high - low or 1.0
        scaled.append([(one - low) / width if high > low else 0.5 for one in stand])
        axes.axvline(x, color=plots.INK, linewidth=0.8)
        for tick, label in zip(ticks, labels, strict=True):
            y = (tick - low) / width if high > low else 0.5
            axes.text(x + 0.03, y, label, fontsize=7, va="center", bbox={"color": "white", "alpha": 0.6, "pad": 0.5})
    chosen = best(space, found)
    order = sorted(range(len(found)), key=lambda i: first.sign * found[i].mean(first))
    for rank, i in enumerate(order):
        share = (rank + 1) / len(order)
        colour = BEST if found[i] is chosen else colormaps["Blues"](0.2 + 0.8 * share)
        axes.plot(
            range(len(titles)),
            [column[i] for column in scaled],
            color=colour,
            linewidth=2.2 if found[i] is chosen else 1,
        )
    axes.set_xticks(range(len(titles)), titles, fontsize=8, rotation=12)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    assert chosen is not None
    point = ", ".join(f"{name} {shown(chosen.values[path])}" for path, name in names(space).items())
    told = f"Parallel coordinates of {len(found)} points; the best has {point}"
    return plots._svg(picture, f"{told} and {first.title} {shown(chosen.mean(first))}.")


def effect(space: Space, found: Sequence[Point], metric: Metric) -> str:
    """A small plot for each parameter: every point with its spread over seeds, and the mean at each value."""
    across = min(3, len(space.parameters))
    down = -(-len(space.parameters) // across)
    picture, all_axes = plots._figure(3.2 * across + 0.4, 2.7 * down, across, down)
    told = []
    for axes, (path, name) in zip(all_axes, names(space).items(), strict=False):
        stand, ticks, labels = places([point.values[path] for point in found], space.parameters[path])
        errors = [point.spread(metric) for point in found]
        means = [point.mean(metric) for point in found]
        axes.errorbar(stand, means, yerr=errors, fmt="o", markersize=3, color=plots.AFTER, alpha=0.45, linewidth=0.9)
        averages = {x: [m for s, m in zip(stand, means, strict=True) if s == x] for x in sorted(set(stand))}
        line = {x: sum(some) / len(some) for x, some in averages.items()}
        if len(line) < len(found) or len(space.parameters) == 1:
            axes.plot(list(line), list(line.values()), color=plots.INK, linewidth=1.2)
            shown_line = zip(line, line.values(), strict=True)
            told.append(f"{name}: " + ", ".join(f"{_named(x, stand, path, found)} {shown(m)}" for x, m in shown_line))
        else:
            told.append(f"{name}: {len(found)} points from {shown(min(means))} to {shown(max(means))}")
        if path in space.paper:
            x = next((x for x, p in zip(stand, found, strict=True) if p.values[path] == space.paper[path]), None)
            if x is not None:
                axes.axvline(x, color=PAPER, linewidth=1.0, linestyle=":", label="the paper's")
                axes.legend(frameon=False, fontsize=7)
        axes.set_xticks(ticks, labels, fontsize=7, rotation=30)
        axes.set_title(name, fontsize=10)
    for axes in all_axes[len(space.parameters) :]:
        axes.set_visible(False)
    all_axes[0].set_ylabel(metric.title)
    return plots._svg(picture, f"{metric.title} by parameter, means. {'; '.join(told)}.")


def _named(x: float, stand: Sequence[float], path: str, found: Sequence[Point]) -> str:
    return shown(found[list(stand).index(x)].values[path])


def _importances(space: Space, found: Sequence[Point]) -> Section:
    """The shares as bars, for each metric."""
    shares = {metric.title: importance(space, found, metric) for metric in space.metrics}
    if not any(shares.values()):
        return Section("Importance", "<p>There are too few points, or they do not differ.</p>")
    parts = [figure(bars(of, names(space), metric)) for metric, of in shares.items() if of]
    text = (
        "<p>How much of the variance over the points each parameter explains by itself (functional analysis of "
        "variance, Hutter et al., 2014). With few points, or with a spread over seeds as large as the differences, "
        "it means little.</p>"
    )
    return Section("Importance", text + "".join(parts))


def bars(shares: Mapping[str, float], called: Mapping[str, str], metric: str) -> str:
    picture, (axes,) = plots._figure(5.6, 0.4 * len(shares) + 1.0)
    paths = list(shares)[::-1]
    axes.barh([called[path] for path in paths], [shares[path] for path in paths], color=plots.AFTER)
    axes.set_xlim(0, 1)
    axes.set_title(metric, fontsize=10)
    told = ", ".join(f"{called[path]} {share:.2f}" for path, share in shares.items())
    return plots._svg(picture, f"Importance for {metric}: {told}.")


def _front(space: Space, found: Sequence[Point]) -> str:
    """Points by the first two metrics, with those that no other one beats in all."""
    x, y = space.metrics[:2]
    kept = front(space, found)
    picture, (axes,) = plots._figure(5.6, 3.4)
    axes.scatter([p.mean(x) for p in found], [p.mean(y) for p in found], s=16, color=plots.BEFORE)
    line = sorted(kept, key=lambda point: point.mean(x))
    axes.plot([p.mean(x) for p in line], [p.mean(y) for p in line], color=BEST, marker="o", markersize=5, linewidth=1.2)
    for point in line if len(line) <= NAMED else []:
        axes.annotate(
            str(point.number), (point.mean(x), point.mean(y)), fontsize=7, xytext=(4, 4), textcoords="offset points"
        )
    axes.set_xlabel(f"{x.title} ({x.mode})")
    axes.set_ylabel(f"{y.title} ({y.mode})")
    told = "; ".join(f"point {p.number}: {shown(p.mean(x))}, {shown(p.mean(y))}" for p in line)
    text = "<p>No other point is at least as good in every metric and better in one.</p>"
    drawing = figure(plots._svg(picture, f"{y.title} against {x.title}, the front: {told}."))
    return text + drawing + _html(table(space, kept))


def _trials(space: Space, records: Sequence[Record]) -> Section:
    head = [
        "point",
        *names(space).values(),
        "seed",
        "state",
        *(metric.title for metric in space.metrics),
        "time",
        "error",
    ]
    rows = []
    for record in records:
        trial = record.trial
        figures = points(space, [record])
        cells = [shown(figures[0].mean(metric)) if figures else "–" for metric in space.metrics]
        values = [escaped(shown(trial.values[path])) for path in space.parameters]
        rows.append(
            [
                str(trial.point),
                *values,
                str(trial.seed),
                record.state,
                *cells,
                duration(round(record.seconds, 1)),
                escaped(record.error),
            ]
        )
    return Section("Trials", html_table(head, rows))
