"""The HTML page of a sweep: the best point, each parameter's effect and importance, the Pareto front, every trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from babelray.report import plots
from babelray.report.frame import Section, contents, duration, escaped, figure, html_table, page, text_table
from babelray.sweeping.importance import importance
from babelray.sweeping.records import Record, format_value
from babelray.sweeping.results import (
    Point,
    best_point,
    completed_points,
    paper_points,
    parameter_names,
    pareto_front,
    values_before,
)
from babelray.sweeping.space import Metric, Range, Space

BEST, PAPER = "#D55E00", "#009E73"
NAMED = 12
"""A front of more points shows no numbers."""


def sweep_page(space: Space, records: Sequence[Record]) -> str:
    """The page, also if no trial succeeded."""
    points = completed_points(space, records)
    counts = {state: sum(record.state == state for record in records) for state in ("done", "stopped", "failed")}
    description = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"
    sections = [_trials(space, records)]
    before = values_before(space, records)
    if points:
        several = len(space.metrics) > 1
        sections = [
            _best(space, points, before),
            _effects(space, points, before),
            _importances(space, points),
            *([Section("Pareto front", _front(space, points))] if several else []),
            *sections,
        ]
    seeds = f"{len(space.seeds)} seed{'s' if len(space.seeds) > 1 else ''}"
    over = ", ".join(parameter_names(space).values())
    head = (
        f"<h1>{escaped(space.name)}</h1><p class='lead'>Babelray sweep over {escaped(over)}: "
        f"{len({record.trial.point for record in records})} points, {seeds} each; trials: {description}. "
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
        f"{format_value(point.mean(metric))} ± {format_value(spread)}"
        if len(point.metrics[metric.name]) > 1
        else format_value(point.mean(metric))
    )


def table(space: Space, points: Sequence[Point]) -> list[list[str]]:
    """A header and a line for each point."""
    head = ["point", *parameter_names(space).values(), *(metric.title for metric in space.metrics)]
    return [head] + [
        [
            str(point.number),
            *(format_value(point.values[path]) for path in space.parameters),
            *(with_spread(point, metric) for metric in space.metrics),
        ]
        for point in points
    ]


def _best(space: Space, points: Sequence[Point], before: Mapping[str, float]) -> Section:
    """The best point beside the best published one, and the values before."""
    first = space.metrics[0]
    best, published = best_point(space, points), best_point(space, paper_points(space, points))
    assert best is not None
    lines = table(space, [best] if published in (best, None) else [best, published])
    for line, name in zip(lines, ("", "best", "as in the paper"), strict=False):
        line.insert(0, name)
    if before:
        cells = [format_value(before[metric.name]) if metric.name in before else "–" for metric in space.metrics]
        lines.append(["before", "–", *("–" for _ in space.parameters), *cells])
    remark = "The published point was not tried." if space.paper else ""
    if published is best:
        remark = "The best point is the published one."
    elif published is not None:
        gain = f"{best.mean(first) - published.mean(first):+.4g}".replace("-", "−")
        spread = max(best.spread(first), published.spread(first))
        remark = f"From the published point to the best: {first.title} {gain}."
        remark += f" The larger of the two spreads over seeds is {format_value(spread)}." if spread else ""
    return Section("Best", f"{text_table(lines)}<p>{escaped(remark)}</p>")


def _effects(space: Space, points: Sequence[Point], before: Mapping[str, float]) -> Section:
    first = space.metrics[0]
    parts = [figure(parallel(space, points), "Each line is a point, the darker the better; the best in orange.")]
    parts += [figure(effect(space, points, metric, before.get(metric.name))) for metric in space.metrics]
    lines = f"<p>Scored by {escaped(first.title)}; {'higher' if first.mode == 'max' else 'lower'} is better.</p>"
    return Section("Parameters", lines + "".join(parts))


def coordinates(values: Sequence[Any], parameter: Range | None = None) -> tuple[list[float], list[float], list[str]]:
    """Coordinates of values on an axis, its ticks, and their labels. Listed values are equally spaced, in order."""
    if parameter is not None and parameter.values is not None:
        kinds = [value for value in parameter.values if value in values]
        ticks = [float(number) for number in range(len(kinds))]
        return [ticks[kinds.index(value)] for value in values], ticks, [format_value(kind) for kind in kinds]
    log = parameter is not None and parameter.log_uniform is not None
    stand = [math.log10(value) for value in values] if log else [float(value) for value in values]
    low, high = min(stand), max(stand)
    ticks = [low + (high - low) * i / 4 for i in range(5)] if high > low else [low]
    return stand, ticks, [format_value(10**tick if log else tick) for tick in ticks]


def parallel(space: Space, points: Sequence[Point]) -> str:
    """Parallel coordinates: an axis for each parameter and each metric, a line for each point."""
    from matplotlib import colormaps

    first = space.metrics[0]
    titles = [*parameter_names(space).values(), *(metric.title for metric in space.metrics)]
    columns = [
        coordinates([point.values[path] for point in points], parameter) for path, parameter in space.parameters.items()
    ]
    columns += [coordinates([point.mean(metric) for point in points]) for metric in space.metrics]
    picture, (axes,) = plots._figure(max(5.0, 1.6 * len(titles)), 3.4)
    scaled = []
    for x, (stand, ticks, labels) in enumerate(columns):
        low, high = min(ticks), max(ticks)
        width = high - low or 1.0
        scaled.append([(x - low) / width if high > low else 0.5 for x in stand])
        axes.axvline(x, color=plots.INK, linewidth=0.8)
        for tick, label in zip(ticks, labels, strict=True):
            y = (tick - low) / width if high > low else 0.5
            axes.text(x + 0.03, y, label, fontsize=7, va="center", bbox={"color": "white", "alpha": 0.6, "pad": 0.5})
    best = best_point(space, points)
    order = sorted(range(len(points)), key=lambda i: first.sign * points[i].mean(first))
    for rank, i in enumerate(order):
        shade = (rank + 1) / len(order)
        colour = BEST if points[i] is best else colormaps["Blues"](0.2 + 0.8 * shade)
        axes.plot(
            range(len(titles)),
            [column[i] for column in scaled],
            color=colour,
            linewidth=2.2 if points[i] is best else 1,
        )
    axes.set_xticks(range(len(titles)), titles, fontsize=8, rotation=12)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    assert best is not None
    point = ", ".join(f"{name} {format_value(best.values[path])}" for path, name in parameter_names(space).items())
    description = f"Parallel coordinates of {len(points)} points; the best has {point}"
    return plots._svg(picture, f"{description} and {first.title} {format_value(best.mean(first))}.")


def effect(space: Space, points: Sequence[Point], metric: Metric, before: float | None = None) -> str:
    """A small plot for each parameter: every point with its spread over seeds, and the mean at each value.

    `before`: the value that all trials started from, as a dashed line.
    """
    across = min(3, len(space.parameters))
    down = -(-len(space.parameters) // across)
    picture, all_axes = plots._figure(3.2 * across + 0.4, 2.7 * down, across, down)
    description = []
    for axes, (path, name) in zip(all_axes, parameter_names(space).items(), strict=False):
        stand, ticks, labels = coordinates([point.values[path] for point in points], space.parameters[path])
        errors = [point.spread(metric) for point in points]
        means = [point.mean(metric) for point in points]
        axes.errorbar(stand, means, yerr=errors, fmt="o", markersize=3, color=plots.AFTER, alpha=0.45, linewidth=0.9)
        averages = {x: [m for s, m in zip(stand, means, strict=True) if s == x] for x in sorted(set(stand))}
        line = {x: sum(values) / len(values) for x, values in averages.items()}
        if len(line) < len(points) or len(space.parameters) == 1:
            axes.plot(list(line), list(line.values()), color=plots.INK, linewidth=1.2)
            means_by_value = [f"{_value_at(x, stand, path, points)} {format_value(mean)}" for x, mean in line.items()]
            description.append(f"{name}: {', '.join(means_by_value)}")
        else:
            ends = f"{format_value(min(means))} to {format_value(max(means))}"
            description.append(f"{name}: {len(points)} points from {ends}")
        if path in space.paper:
            x = next((x for x, p in zip(stand, points, strict=True) if p.values[path] == space.paper[path]), None)
            if x is not None:
                axes.axvline(x, color=PAPER, linewidth=1.0, linestyle=":", label="the paper's")
                axes.legend(frameon=False, fontsize=7)
        if before is not None:
            axes.axhline(before, color=plots.BEFORE, linewidth=1.0, linestyle="--", label="before")
            axes.legend(frameon=False, fontsize=7)
        axes.set_xticks(ticks, labels, fontsize=7, rotation=30)
        axes.set_title(name, fontsize=10)
    for axes in all_axes[len(space.parameters) :]:
        axes.set_visible(False)
    all_axes[0].set_ylabel(metric.title)
    start = "" if before is None else f" Before: {format_value(before)}."
    return plots._svg(picture, f"{metric.title} by parameter, means. {'; '.join(description)}.{start}")


def _value_at(x: float, stand: Sequence[float], path: str, points: Sequence[Point]) -> str:
    return format_value(points[list(stand).index(x)].values[path])


def _importances(space: Space, points: Sequence[Point]) -> Section:
    """The importance of each parameter as bars, for each metric."""
    shares = {metric.title: importance(space, points, metric) for metric in space.metrics}
    if not any(shares.values()):
        return Section("Importance", "<p>There are too few points, or they do not differ.</p>")
    parts = [figure(bars(of, parameter_names(space), metric)) for metric, of in shares.items() if of]
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
    description = ", ".join(f"{called[path]} {share:.2f}" for path, share in shares.items())
    return plots._svg(picture, f"Importance for {metric}: {description}.")


def _front(space: Space, points: Sequence[Point]) -> str:
    """Points by the first two metrics, with the Pareto front."""
    x, y = space.metrics[:2]
    front = pareto_front(space, points)
    picture, (axes,) = plots._figure(5.6, 3.4)
    axes.scatter([p.mean(x) for p in points], [p.mean(y) for p in points], s=16, color=plots.BEFORE)
    line = sorted(front, key=lambda point: point.mean(x))
    axes.plot([p.mean(x) for p in line], [p.mean(y) for p in line], color=BEST, marker="o", markersize=5, linewidth=1.2)
    for point in line if len(line) <= NAMED else []:
        axes.annotate(
            str(point.number), (point.mean(x), point.mean(y)), fontsize=7, xytext=(4, 4), textcoords="offset points"
        )
    axes.set_xlabel(f"{x.title} ({x.mode})")
    axes.set_ylabel(f"{y.title} ({y.mode})")
    description = "; ".join(f"point {p.number}: {format_value(p.mean(x))}, {format_value(p.mean(y))}" for p in line)
    text = "<p>No other point is at least as good in every metric and better in one.</p>"
    drawing = figure(plots._svg(picture, f"{y.title} against {x.title}, the front: {description}."))
    return text + drawing + text_table(table(space, front))


def _trials(space: Space, records: Sequence[Record]) -> Section:
    head = [
        "point",
        *parameter_names(space).values(),
        "seed",
        "state",
        *(metric.title for metric in space.metrics),
        "time",
        "error",
    ]
    rows = []
    for record in records:
        trial = record.trial
        done = completed_points(space, [record])
        cells = [format_value(done[0].mean(metric)) if done else "–" for metric in space.metrics]
        values = [escaped(format_value(trial.values[path])) for path in space.parameters]
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
