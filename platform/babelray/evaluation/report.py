"""The report: one self-contained HTML page that says what was run, what came out, and from what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.evaluation import plots
from babelray.evaluation.report_page import (
    SCRIPT,
    STYLE,
    Section,
    contents,
    duration,
    escaped,
    figure,
    html_table,
    page,
    signed,
    spoken,
)
from babelray.evaluation.report_tasks import language_name, overview, published_table, task_sections
from babelray.evaluation.word_map import closeness, spread_out, told_closeness, word_map

if TYPE_CHECKING:
    from babelray.languages import Language

__all__ = ["SCRIPT", "STYLE", "TASKS", "ReportData", "escaped", "html_table", "page", "render"]

Matrix = Mapping[str, Mapping[str, Mapping[str, float]]]
"""{before | after: {source: {target: value}}}"""

TASKS = {
    "retrieval": (
        "Sentence retrieval",
        "mean",
        "Share of held-out sentences whose nearest neighbour in the other language is their translation, both "
        "directions averaged. Before: the encoder the run started from. After: the aligned encoder.",
    ),
    "words": (
        "Word translation by the encoder",
        "p1",
        "Share of held-out words whose nearest word in the hub (CSLS) is a translation, every word encoded alone. "
        "Before: the encoder the run started from. After: the aligned encoder.",
    ),
    "bli": (
        "Word translation by static vectors",
        "p1",
        "Share of held-out words whose nearest word in the hub (CSLS) is a translation. Before: the static vectors as "
        "extracted. After: mapped into the hub's space.",
    ),
    "similarity": (
        "Word similarity by static vectors",
        "harmonic",
        "How well the similarity of two words' vectors agrees with people's ratings: the harmonic mean of Spearman's "
        "and Pearson's correlations. Before: as extracted. After: mapped into the hub's space.",
    ),
}


LABELLED = 5
"""So many words and their translations are written out in the picture."""


@dataclass(frozen=True)
class ReportData:
    """Everything the page shows."""

    name: str
    hub: str
    languages: Mapping[str, Language]
    scores: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
    statistics: Mapping[str, Mapping[str, int]]
    curves: Mapping[str, Sequence[Mapping[str, Any]]]
    manifests: Mapping[str, Mapping[str, Any]]
    matrix: Matrix | None = None
    """P@1 of word translation between all pairs of languages."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The tasks that the recipe lists: what `tasks.json` says of each."""
    retrieval_matrix: Matrix | None = None
    """Accuracy of sentence retrieval between all pairs of languages."""
    picture: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    """{before | after: [{language, concept, word, x, y}]}: words in two dimensions."""


def render(data: ReportData) -> str:
    """The page."""
    sections = [overview(data.tasks)] if data.tasks else []
    sections += [_task(data, task) for task in TASKS if data.scores.get(task, {}).get("after")]
    sections += task_sections(data.tasks, data.languages)
    others = [
        _layers(data),
        _picture(data),
        _retrieval_matrix(data),
        _matrix(data),
        _language_model(data),
        _training(data),
        _cost(data),
        _corpus(data),
        _trace(data),
    ]
    sections += [section for section in others if section is not None]
    return page(data.name, _headline(data) + contents(sections) + "".join(section.html() for section in sections))


def _headline(data: ReportData) -> str:
    cards = []
    for task, (title, measure, _) in TASKS.items():
        versions = data.scores.get(task, {})
        if versions.get("after"):
            before, after = (fmean(v[measure] for v in versions[when].values()) for when in ("before", "after"))
            change = f"{100 * before:.1f} % before ({signed(after - before, '%')})"
            cards.append(_card(title, f"{100 * after:.1f} %", change))
    others = len(data.languages) - 1
    cards.append(_card("Languages", f"{len(data.languages)}", f"{others} with {data.languages[data.hub].name}"))
    seconds = sum(manifest["seconds"] for manifest in data.manifests.values())
    cards.append(_card("Time", spoken(seconds), f"in {len(data.manifests)} stages"))
    return f'<h1>{escaped(data.name)}</h1><p class="lead">Babelray report</p><div class="cards">{"".join(cards)}</div>'


def _card(title: str, figure: str, note: str) -> str:
    return f'<div class="card"><span>{title}</span><b>{figure}</b><small>{escaped(note)}</small></div>'


def _task(data: ReportData, task: str) -> Section:
    title, measure, meaning = TASKS[task]
    versions = data.scores[task]
    before, after = ({c: v[measure] for c, v in versions[when].items()} for when in ("before", "after"))
    counted = {"retrieval": "sentences", "similarity": "pairs"}.get(task, "words")
    rows = [
        [
            escaped(code),
            escaped(language_name(code, data.languages)),
            f"{100 * before[code]:.1f}" if code in before else "",
            f"{100 * after[code]:.1f}",
            signed(after[code] - before[code], "%") if code in before else "",
            f"{versions['after'][code][counted]:,.0f}",
            *(escaped(getattr(data.languages.get(code), field, "")) for field in ("native", "script")),
        ]
        for code in after
    ]
    foot = ["", "mean", *(f"{100 * fmean(v.values()):.1f}" for v in (before, after))]
    foot += [signed(fmean(after.values()) - fmean(before.values()), "%"), "", "", ""]
    head = ["code", "language", "before, %", "after, %", "change", counted, "in itself", "script"]
    picture = figure(plots.before_after(before, after, title))
    return Section(title, f"<p>{meaning}</p>{picture}{html_table(head, rows, foot)}{published_table(task)}")


def _layers(data: ReportData) -> Section | None:
    versions = {when: by_language for when, by_language in data.scores.get("layers", {}).items() if by_language}
    if not versions:
        return None
    means = {
        when: {
            layer: fmean(values[layer] for values in by_language.values()) for layer in next(iter(by_language.values()))
        }
        for when, by_language in versions.items()
    }
    best = ", ".join(f"{when} {max(values, key=values.__getitem__)}" for when, values in means.items())
    title = "Sentence retrieval by layer"
    text = "The same measure at every layer, the mean over languages; 0 is the embedding layer."
    return Section(title, f"<p>{text} Best: {best}.</p>{figure(plots.by_layer(means, title))}")


def _picture(data: ReportData) -> Section | None:
    if not data.picture or not all(data.picture.values()):
        return None
    last = list(data.picture.values())[-1]
    codes = dict.fromkeys(point["language"] for points in data.picture.values() for point in points)
    names = {code: language_name(code, data.languages) or code for code in codes}
    labelled = spread_out(last, LABELLED)
    maps = [
        figure(
            word_map(points, names, labelled, f"Words in two dimensions, {when}"),
            f"<b>{escaped(when.capitalize())}.</b> {told_closeness(closeness(points))}",
        )
        for when, points in data.picture.items()
    ]
    text = (
        "Words that the encoder reads alone, on the two directions in which they differ most (principal components of "
        "their vectors at unit length; one projection and one mean for all languages). Lines join translations. Where "
        "languages form islands, the space knows them by language; where colours mix and lines are short, by meaning. "
        "Two dimensions of many: only what is far apart here is surely apart. Each picture has its own scale."
    )
    return Section("Words on a map", f'<p>{text}</p><div class="pair">{"".join(maps)}</div>')


def _language_model(data: ReportData) -> Section | None:
    versions = data.scores.get("perplexity", {})
    if not versions.get("after"):
        return None
    measures = {"mlm": "loss", "pseudo_perplexity": "pseudo-perplexity", "bits_per_character": "bits per character"}
    rows = [
        [
            escaped(code),
            escaped(data.languages[code].name),
            f"{after['sentences']:,}",
            *(f"{versions[when][code][m]:,.2f}" for m in measures for when in ("before", "after")),
        ]
        for code, after in versions["after"].items()
    ]
    head = ["code", "language", "sentences", *["before", "after"] * len(measures)]
    groups = [("", 3), *((title, 2) for title in measures.values())]
    return Section(
        "The encoder as a language model",
        "<p>On held-out sentences; lower is better. The loss of masked language modelling, the pseudo-perplexity "
        "(every subword hidden alone and predicted from the others), and bits per character.</p>"
        f"{html_table(head, rows, groups=groups)}",
    )


def _retrieval_matrix(data: ReportData) -> Section | None:
    if not data.retrieval_matrix:
        return None
    title = "Sentence retrieval between all languages"
    text = (
        "Share of sentences of a language (rows) whose nearest neighbour in another (columns) is their translation. "
        "Neither needs to be the hub: the pairs come from sentences that translate the same one of the hub."
    )
    return Section(title, f"<p>{text}</p>{figure(plots.heat_map(data.retrieval_matrix, title, 'accuracy'))}")


def _matrix(data: ReportData) -> Section | None:
    if not data.matrix:
        return None
    title = "Word translation between all languages"
    text = (
        "P@1 by CSLS from each language (rows) to each (columns), by static vectors. Where neither is the hub, words "
        "that translate the same word of the hub count as translations."
    )
    return Section(title, f"<p>{text}</p>{figure(plots.heat_map(data.matrix, title))}")


def _training(data: ReportData) -> Section | None:
    titles = {"encoder": "The starting encoder, from scratch", "pretrain": "Continued pre-training"}
    parts = [
        f"<h3>{titles[stage]}</h3>{figure(picture)}"
        for stage, rows in data.curves.items()
        if len(rows) > 1 and (picture := plots.curves(rows, titles[stage]))
    ]
    return Section("Training", "".join(parts)) if parts else None


def _cost(data: ReportData) -> Section:
    """Time by stage; for trainings what they read and how fast; memory where a manifest knows it."""
    costs = {stage: training_cost(rows) for stage, rows in data.curves.items()}
    peaks = {stage: manifest.get("metrics", {}).get(PEAK) for stage, manifest in data.manifests.items()}
    columns = {"tokens": ",.0f", "tokens per second": ",.0f", "waiting for data, %": ".1f"}
    columns = {name: kind for name, kind in columns.items() if any(name in cost for cost in costs.values())}
    rows = []
    for stage, manifest in data.manifests.items():
        cost = costs.get(stage, {})
        row = [escaped(stage), duration(manifest["seconds"])]
        row += [format(cost[name], kind) if name in cost else "" for name, kind in columns.items()]
        rows.append([*row, f"{peaks[stage] / 2**30:.2f}" if peaks[stage] else ""])
    head = ["stage", "time", *columns, "peak memory, GiB"]
    foot = ["all", spoken(sum(manifest["seconds"] for manifest in data.manifests.values()))]
    foot += ["" for _ in head[2:]]
    if not any(peaks.values()):
        head, foot, rows = head[:-1], foot[:-1], [row[:-1] for row in rows]
    text = (
        "Time of each stage when it was made; a stage that an earlier run had made already counts with its time then."
    )
    tokens = " Tokens are subwords that training read, padding left out." if columns else ""
    return Section("Cost", f"<p>{text}{tokens}</p>{html_table(head, rows, foot)}")


PEAK = "peak_memory_bytes"
"""The metric of a manifest that tells how much memory a stage needed."""


def training_cost(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """From the speeds that training noted: rate x time, added up over the stretches between notes; empty if none."""
    tokens = seconds = waited = last = 0.0
    for row in rows:
        values = row["values"]
        if "speed/tokens_per_second" in values:
            stretch = values["speed/seconds_per_step"] * (row["step"] - last)
            tokens += values["speed/tokens_per_second"] * stretch
            waited += values["speed/waiting_for_data"] * stretch
            seconds, last = seconds + stretch, row["step"]
    if not seconds:
        return {}
    return {"tokens": tokens, "tokens per second": tokens / seconds, "waiting for data, %": 100 * waited / seconds}


def _corpus(data: ReportData) -> Section:
    reasons = sorted({name for counts in data.statistics.values() for name in counts if name.startswith("dropped")})
    names = ["read", *reasons, "kept", "tokens", "types"]
    rows = [
        [escaped(code), escaped(data.languages[code].name), *(f"{counts.get(name, 0):,}" for name in names)]
        for code, counts in data.statistics.items()
    ]
    return Section("Corpus", html_table(["code", "language", *names], rows))


def _trace(data: ReportData) -> Section:
    rows = [
        [
            escaped(stage),
            f"<code>{escaped(manifest['fingerprint'])}</code>",
            f"<code>{escaped(manifest['code'])}</code>",
            escaped(manifest["created"].replace("T", " ").replace("+00:00", "")),
        ]
        for stage, manifest in data.manifests.items()
    ]
    last = list(data.manifests.values())[-1]
    packages = ", ".join(f"{name} {version}" for name, version in last["packages"].items())
    made = f"Babelray {last['babelray']}, Python {last['python']}, {packages}; commit {last['commit'] or 'unknown'}."
    settings = {stage: manifest["settings"] for stage, manifest in data.manifests.items()}
    shown = escaped(json.dumps(settings, indent=2, ensure_ascii=False))
    return Section(
        "Where every figure comes from",
        f"{html_table(['stage', 'fingerprint', 'code', 'made (UTC)'], rows)}<p>{escaped(made)}</p>"
        f"<details><summary>All settings</summary><pre>{shown}</pre></details>",
    )
