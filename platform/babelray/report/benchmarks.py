"""The report's sections on benchmarks: figures before and after, and what papers published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.languages import language_name
from babelray.metrics.closeness import closeness
from babelray.metrics.intervals import format_interval
from babelray.report import plots
from babelray.report.frame import Section, escaped, figure, format_p, format_score, html_table, signed
from babelray.report.published import published
from babelray.report.word_map import describe_closeness, spread_out, word_map

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.storage.results import BenchmarkResults, Scores

ALPHA = 0.05
LABELLED = 5
"""Number of words that are labelled on a map, with their translations."""
LEGEND = (
    f"<b>Bold</b>: before and after differ by more than chance (p &lt; {ALPHA}; paired permutation test over the "
    "examples, not corrected for the number of languages)."
)
INTERVAL = "after, 95 %"
"""The title of the column of confidence intervals."""
INTERVAL_LEGEND = f"{INTERVAL}: the confidence interval of the score after, over other examples of the same kind."
SPREAD = "± is the standard deviation over seeds."


def benchmark_section(result: BenchmarkResults, languages: Mapping[str, Language], papers: bool = True) -> Section:
    """The section of one benchmark; `papers`: with published figures."""
    metric, before, after = result.main_metric, result.scores["before"], result.scores["after"]
    parts = [f"<p>{escaped(result.meta['description'])}</p>"] if result.meta["description"] else []
    if result.format() == "%" and _column(after, metric):
        spreads = {when: _column(scores, f"{metric}_spread") for when, scores in result.scores.items()}
        picture = plots.before_after(_column(before, metric), _column(after, metric), result.title, spreads)
        parts.append(figure(picture))
    parts += _figures(result, languages)
    parts.append(_table(result, languages))
    notes = [LEGEND] if result.p else []
    notes += [INTERVAL_LEGEND] if result.intervals.get("after") else []
    notes += [SPREAD] if any(f"{metric}_spread" in values for values in after.values()) else []
    parts += [f'<p class="note">{" ".join(notes)}</p>'] if notes else []
    parts += [published_table(result.meta["benchmark"])] if papers else []
    return Section(result.title, "".join(parts))


def benchmark_sections(results: Mapping[str, BenchmarkResults], languages: Mapping[str, Language]) -> list[Section]:
    """Those of all benchmarks; published figures stand below the first result of a benchmark."""
    first = {result.meta["benchmark"]: label for label, result in reversed(list(results.items()))}
    return [
        benchmark_section(result, languages, label == first[result.meta["benchmark"]])
        for label, result in results.items()
    ]


def overview(results: Mapping[str, BenchmarkResults]) -> Section:
    """The main metric of every benchmark, the mean over languages."""
    rows = []
    for result in results.values():
        section = Section(result.title, "")
        link = f'<a href="#{escaped(section.anchor)}">{escaped(section.title)}</a>'
        both = _shared(result, result.main_metric)
        cells = _compared(both, result.format(), result.p.get(""))
        rows.append([link, *cells, _interval(result, ""), escaped(result.metric_title()), f"{len(both)}"])
    text = "<p>The main metric of each benchmark, the mean over its languages.</p>"
    head = ["benchmark", "before", "after", "change", "p", INTERVAL, "metric", "languages"]
    notes = [LEGEND] if any(result.p for result in results.values()) else []
    if any(_interval(result, "") for result in results.values()):
        notes.append(INTERVAL_LEGEND)
    else:
        place = head.index(INTERVAL)
        head, rows = _without(head, place), [_without(row, place) for row in rows]
    legend = f'<p class="note">{" ".join(notes)}</p>' if notes else ""
    return Section("All benchmarks", f"{text}{html_table(head, rows)}{legend}")


def published_table(benchmark: str) -> str:
    """Published figures for a benchmark, under a heading of their own; empty if there are none."""
    figures = published(benchmark)
    if not figures:
        return ""
    lines: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for one in figures:
        key = (one.system, one.encoder, one.data, one.metric, f"{one.paper.short}, {one.table}")
        lines.setdefault(key, []).append((one.languages, one.printed))
    rows = []
    for (system, encoder, data, metric, source), values in lines.items():
        where, value = ", ".join(languages for languages, _ in values), " / ".join(printed for _, printed in values)
        rows.append([escaped(cell) for cell in (system, encoder, data, where, metric, value, source)])
    papers = {one.paper.short: one.paper for one in figures}
    trained = "".join(
        f"<li>{escaped(name)}, <cite>{escaped(paper.title)}</cite>: trained on {escaped(paper.trained)}.</li>"
        for name, paper in papers.items()
    )
    head = ["system", "encoder", "data", "languages", "metric", "value", "paper"]
    return (
        '<details class="published"><summary>Published figures, not of this run</summary>'
        "<p>Copied from the papers, to know what others reached. They were measured with the encoders and data that "
        "are named here, not with those of this run: a difference from the figures above says little about the method. "
        f"Per cent, unless the metric says otherwise.</p>{html_table(head, rows)}<ul>{trained}</ul></details>"
    )


def _figures(result: BenchmarkResults, languages: Mapping[str, Language]) -> list[str]:
    """Figures beside the scores: matrices, layers, maps of words."""
    draw = {"matrix": _matrix, "layers": _layers, "points": _word_maps}
    kinds = dict.fromkeys(kind for figures in result.figures.values() for kind in figures)
    return [
        draw[kind](result, {system: own[kind] for system, own in result.figures.items() if kind in own}, languages)
        for kind in kinds
        if kind in draw
    ]


def _matrix(result: BenchmarkResults, matrices: Mapping[str, Any], languages: Mapping[str, Language]) -> str:
    title, _, text = result.meta["captions"].get("matrix", "Between all languages. ").partition(". ")
    metric = result.metric_title().removesuffix(", %")
    picture = figure(plots.heat_map(matrices, title, metric))
    return f"<h3>{escaped(title)}</h3><p>{escaped(text)}</p>{picture}"


def _layers(result: BenchmarkResults, layers: Mapping[str, Any], languages: Mapping[str, Language]) -> str:
    means = {
        when: {
            layer: fmean(values[layer] for values in by_language.values()) for layer in next(iter(by_language.values()))
        }
        for when, by_language in layers.items()
    }
    best = ", ".join(f"{when} {max(values, key=values.__getitem__)}" for when, values in means.items())
    return f"<p>Mean over languages. Best: {best}.</p>{figure(plots.by_layer(means, result.title))}"


def _word_maps(result: BenchmarkResults, maps: Mapping[str, Any], languages: Mapping[str, Language]) -> str:
    codes = dict.fromkeys(point["language"] for points in maps.values() for point in points)
    names = {code: language_name(code, languages) or code for code in codes}
    labelled = spread_out(list(maps.values())[-1], LABELLED)
    pictures = [
        figure(
            word_map(points, names, labelled, f"Words in two dimensions, {when}"),
            f"<b>{escaped(when.capitalize())}.</b> {describe_closeness(closeness(points))}",
        )
        for when, points in maps.items()
    ]
    return f'<div class="pair">{"".join(pictures)}</div>'


def _table(result: BenchmarkResults, languages: Mapping[str, Language]) -> str:
    """Languages down; the main metric with its change, then the others, and counts once."""
    main, columns, p = result.main_metric, result.meta["columns"], result.p
    before, after = result.scores["before"], result.scores["after"]
    metrics = [m for m in columns if not m.endswith("_spread") and any(m in values for values in after.values())]
    counts = [m for m in metrics if columns[m] == ",.0f" and m != main and _same(result, m)]
    others = [m for m in metrics if m not in counts and m != main]
    tested = ["p"] if p else []
    sure = [INTERVAL] if any(_interval(result, code) for code in after) else []
    head = ["code", "language", "before", "after", "change", *tested, *sure, *["before", "after"] * len(others)]
    head += [result.metric_title(m) for m in counts]
    groups = [
        ("", 2),
        (result.metric_title(), 3 + len(tested) + len(sure)),
        *((result.metric_title(m), 2) for m in others),
    ]
    groups += [("", len(counts))] if counts else []
    rows = [
        [
            escaped(code),
            escaped(language_name(code, languages)),
            *_difference(before.get(code, {}), after[code], result, p.get(code), bool(p)),
            *([_interval(result, code)] if sure else []),
            *(_cell(own.get(code, {}), m, columns[m]) for m in others for own in (before, after)),
            *(_cell(after[code], m, columns[m]) for m in counts),
        ]
        for code in after
    ]
    foot = ["", "mean", *_compared(_shared(result, main), result.format(), p.get(""))[: 3 + len(tested)]]
    foot += [_interval(result, "")] if sure else []
    for m in others:
        both = _shared(result, m)
        foot += [format_score(fmean(side), columns[m]) for side in zip(*both, strict=True)] if both else ["", ""]
    foot += ["" for _ in counts]
    return html_table(head, rows, foot if len(after) > 1 else (), groups)


def _difference(
    before: Mapping[str, float], after: Mapping[str, float], result: BenchmarkResults, p: float | None, tested: bool
) -> list[str]:
    """Before, after, change and, in a table that has them, the p-value."""
    metric, kind = result.main_metric, result.format()
    both = _is_number(before, metric) and _is_number(after, metric)
    change = _bold(signed(after[metric] - before[metric], kind), p) if both else ""
    cells = [_cell(before, metric, kind), _cell(after, metric, kind), change]
    return [*cells, _p(p)] if tested else cells


def _interval(result: BenchmarkResults, code: str) -> str:
    """The confidence interval of the score after of a language, or of the mean; empty if it is not known."""
    return format_interval(result.intervals.get("after", {}).get(code), result.format())


def _without(cells: Sequence[str], place: int) -> list[str]:
    return [*cells[:place], *cells[place + 1 :]]


def _compared(both: Sequence[tuple[float, float]], kind: str, p: float | None) -> list[str]:
    """The means before and after, the change, the p-value."""
    if not both:
        return ["", "", "", ""]
    before, after = (fmean(side) for side in zip(*both, strict=True))
    cells = [format_score(before, kind), format_score(after, kind), _bold(signed(after - before, kind), p)]
    return [*cells, _p(p)]


def _cell(values: Mapping[str, float], metric: str, kind: str) -> str:
    if not _is_number(values, metric):
        return ""
    spread = values.get(f"{metric}_spread")
    return format_score(values[metric], kind) + (f" ± {format_score(spread, kind)}" if spread is not None else "")


def _bold(text: str, p: float | None) -> str:
    return f"<b>{text}</b>" if p is not None and p < ALPHA else text


def _p(p: float | None) -> str:
    return _bold(escaped(format_p(p)), p)


def _column(scores: Scores, metric: str) -> dict[str, float]:
    return {code: values[metric] for code, values in scores.items() if _is_number(values, metric)}


def _is_number(values: Mapping[str, float], metric: str) -> bool:
    """Whether the metric was measured: the correlation of constant values is not a number."""
    return metric in values and not math.isnan(values[metric])


def _shared(result: BenchmarkResults, metric: str) -> list[tuple[float, float]]:
    """The values before and after of the languages that have both."""
    first, second = (_column(result.scores[when], metric) for when in ("before", "after"))
    return [(first[code], second[code]) for code in second if code in first]


def _same(result: BenchmarkResults, metric: str) -> bool:
    return all(first == second for first, second in _shared(result, metric))
