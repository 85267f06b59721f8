"""The report: one self-contained HTML page that says what was run, what came out, and from what."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.evaluation import plots

if TYPE_CHECKING:
    from babelray.languages import Language

STYLE = Path(__file__).with_name("report.css")
SCRIPT = Path(__file__).with_name("report.js")

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
    matrix: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
    """P@1 between all pairs of languages: {before | after: {source: {target: value}}}."""


def render(data: ReportData) -> str:
    """The page."""
    body = [_headline(data)]
    body += [_task(data, task) for task in TASKS if data.scores.get(task, {}).get("after")]
    body += [_layers(data), _matrix(data), _language_model(data), _training(data), _corpus(data), _trace(data)]
    return page(data.name, "".join(body))


def page(title: str, body: str) -> str:
    """A self-contained page."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escaped(title)} – Babelray</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE.read_text()}</style></head><body><main>{body}</main>"
        f"<script>{SCRIPT.read_text()}</script></body></html>\n"
    )


def _headline(data: ReportData) -> str:
    cards = []
    for task, (title, measure, _) in TASKS.items():
        versions = data.scores.get(task, {})
        if versions.get("after"):
            before, after = (100 * fmean(v[measure] for v in versions[w].values()) for w in ("before", "after"))
            cards.append(
                f'<div class="card"><span>{title}</span><b>{after:.1f} %</b>'
                f"<small>{before:.1f} % before ({after - before:+.1f})</small></div>"
            )
    others = len(data.languages) - 1
    seconds = sum(manifest["seconds"] for manifest in data.manifests.values())
    cards.append(
        f'<div class="card"><span>Languages</span><b>{len(data.languages)}</b>'
        f"<small>{others} compared with {escaped(data.languages[data.hub].name)}</small></div>"
    )
    cards.append(
        f'<div class="card"><span>Time</span><b>{seconds:,.0f} s</b>'
        f"<small>in {len(data.manifests)} stages</small></div>"
    )
    return f'<h1>{escaped(data.name)}</h1><p class="lead">Babelray report</p><div class="cards">{"".join(cards)}</div>'


def _task(data: ReportData, task: str) -> str:
    title, measure, meaning = TASKS[task]
    versions = data.scores[task]
    before, after = ({c: v[measure] for c, v in versions[when].items()} for when in ("before", "after"))
    counted = {"retrieval": "sentences", "similarity": "pairs"}.get(task, "words")
    rows = [
        [
            escaped(code),
            *(escaped(getattr(data.languages.get(code), field, "")) for field in ("name", "native", "script")),
            f"{versions['after'][code][counted]:,.0f}",
            f"{100 * before.get(code, 0):.1f}",
            f"{100 * after[code]:.1f}",
            f"{100 * (after[code] - before.get(code, 0)):+.1f}",
        ]
        for code in after
    ]
    foot = ["", "mean", "", "", "", *(f"{100 * fmean(v.values()):.1f}" for v in (before, after))]
    foot.append(f"{100 * (fmean(after.values()) - fmean(before.values())):+.1f}")
    head = ["code", "language", "", "script", counted, "before %", "after %", "change"]
    return (
        f"<section><h2>{title}</h2><p>{meaning}</p><figure>{plots.before_after(before, after, title)}</figure>"
        f"{html_table(head, rows, foot)}</section>"
    )


def _layers(data: ReportData) -> str:
    versions = {when: by_language for when, by_language in data.scores.get("layers", {}).items() if by_language}
    if not versions:
        return ""
    means = {
        when: {
            layer: fmean(values[layer] for values in by_language.values()) for layer in next(iter(by_language.values()))
        }
        for when, by_language in versions.items()
    }
    best = ", ".join(f"{when} {max(values, key=values.__getitem__)}" for when, values in means.items())
    title = "Sentence retrieval by layer"
    return (
        f"<section><h2>{title}</h2><p>The same measure at every layer, the mean over languages; 0 is the embedding "
        f"layer. Best: {best}.</p><figure>{plots.by_layer(means, title)}</figure></section>"
    )


def _language_model(data: ReportData) -> str:
    versions = data.scores.get("perplexity", {})
    if not versions.get("after"):
        return ""
    measures = ("mlm", "pseudo_perplexity", "bits_per_character")
    rows = [
        [
            escaped(code),
            escaped(data.languages[code].name),
            f"{after['sentences']:,}",
            *(f"{versions[when][code][m]:,.2f}" for m in measures for when in ("before", "after")),
        ]
        for code, after in versions["after"].items()
    ]
    head = ["code", "language", "sentences", "loss before", "after"]
    head += ["perplexity before", "after", "bits before", "after"]
    return (
        "<section><h2>The encoder as a language model</h2><p>On held-out sentences; lower is better. The loss of "
        "masked language modelling, the pseudo-perplexity (every subword hidden alone and predicted from the others), "
        f"and bits per character.</p>{html_table(head, rows)}</section>"
    )


def _matrix(data: ReportData) -> str:
    if not data.matrix:
        return ""
    title = "Word translation between all languages"
    return (
        f"<section><h2>{title}</h2><p>P@1 by CSLS from each language (rows) to each (columns), by static vectors. "
        "Where neither is the hub, words that translate the same word of the hub count as translations.</p>"
        f"<figure>{plots.heat_map(data.matrix, title)}</figure></section>"
    )


def _training(data: ReportData) -> str:
    titles = {"encoder": "The starting encoder, from scratch", "pretrain": "Continued pre-training"}
    parts = [
        f"<h3>{titles[stage]}</h3><figure>{plots.curves(rows, titles[stage])}</figure>"
        for stage, rows in data.curves.items()
        if len(rows) > 1
    ]
    return f"<section><h2>Training</h2>{''.join(parts)}</section>" if parts else ""


def _corpus(data: ReportData) -> str:
    reasons = sorted({name for counts in data.statistics.values() for name in counts if name.startswith("dropped")})
    names = ["read", *reasons, "kept", "tokens", "types"]
    rows = [
        [escaped(code), escaped(data.languages[code].name), *(f"{counts.get(name, 0):,}" for name in names)]
        for code, counts in data.statistics.items()
    ]
    return f"<section><h2>Corpus</h2>{html_table(['code', 'language', *names], rows)}</section>"


def _trace(data: ReportData) -> str:
    rows = [
        [
            escaped(stage),
            f"<code>{escaped(manifest['fingerprint'])}</code>",
            f"<code>{escaped(manifest['code'])}</code>",
            escaped(manifest["created"].replace("T", " ").replace("+00:00", "")),
            f"{manifest['seconds']:,.1f}",
        ]
        for stage, manifest in data.manifests.items()
    ]
    last = list(data.manifests.values())[-1]
    packages = ", ".join(f"{name} {version}" for name, version in last["packages"].items())
    made = f"Babelray {last['babelray']}, Python {last['python']}, {packages}; commit {last['commit'] or 'unknown'}."
    settings = {stage: manifest["settings"] for stage, manifest in data.manifests.items()}
    shown = escaped(json.dumps(settings, indent=2, ensure_ascii=False))
    return (
        "<section><h2>Where every figure comes from</h2>"
        f"{html_table(['stage', 'fingerprint', 'code', 'made (UTC)', 'seconds'], rows)}<p>{escaped(made)}</p>"
        f"<details><summary>All settings</summary><pre>{shown}</pre></details></section>"
    )


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], foot: Sequence[str] = ()) -> str:
    """Cells are HTML already."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    foot_html = f"<tfoot>{row(foot, 'td')}</tfoot>" if foot else ""
    return (
        f'<div class="scroll"><table><thead>{row([escaped(h) for h in head], "th")}</thead>'
        f"<tbody>{body}</tbody>{foot_html}</table></div>"
    )


def escaped(value: str) -> str:
    return html.escape(value)
