"""The report of a run: scores before and after, trainings, costs, and where every figure comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from babelray.report import plots
from babelray.report.benchmarks import benchmark_sections, overview
from babelray.report.frame import (
    Section,
    contents,
    duration,
    escaped,
    figure,
    format_duration,
    format_score,
    html_table,
    page,
    signed,
)
from babelray.storage.results import BenchmarkResults, read_results
from babelray.training.model_card import encoder_usage

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.storage.artifact import Artifact

TRAININGS = {"encoder": "The starting encoder, from scratch", "pretrain": "Continued pre-training"}
"""Stages that write loss curves."""


@dataclass(frozen=True)
class ReportData:
    """Everything the page shows."""

    name: str
    hub: str
    languages: Mapping[str, Language]
    results: Mapping[str, BenchmarkResults]
    statistics: Mapping[str, Mapping[str, int]]
    curves: Mapping[str, Sequence[Mapping[str, Any]]]
    manifests: Mapping[str, Mapping[str, Any]]

    @property
    def encoder(self) -> str | None:
        """The folder of the trained encoder in the storage of the run; None if there is none."""
        made = self.manifests.get("pretrain")
        return f"pretrain/{made['fingerprint']}/encoder" if made else None


def render(
    artifact: Artifact,
    name: str,
    languages: Mapping[str, Language],
    run: Mapping[str, Artifact] = MappingProxyType({}),
) -> dict[str, str]:
    """The page of an evaluation; `run` are the artifacts of all stages of its run."""
    artifacts = {**run, "evaluate": artifact}
    curves = {
        stage: location.read_json()
        for stage in TRAININGS
        if stage in artifacts and (location := artifacts[stage].location / "curves.json").exists()
    }
    corpus = artifacts.get("corpus")
    data = ReportData(
        name=name,
        hub=artifact.manifest["settings"]["hub"],
        languages=languages,
        results=read_results(artifact.location),
        statistics=(corpus.location / "statistics.json").read_json()["text"] if corpus else {},
        curves=curves,
        manifests={stage: made.manifest for stage, made in artifacts.items()},
    )
    return {"report.html": report_page(data)}


def report_page(data: ReportData) -> str:
    """The page."""
    results = {label: result for label, result in data.results.items() if result.scores["after"]}
    sections = [overview(results)] if results else []
    sections += benchmark_sections(results, data.languages)
    others = [_usage(data), _training(data), _cost(data), _corpus(data), _trace(data)]
    sections += [section for section in others if section is not None]
    return page(data.name, _headline(data) + contents(sections) + "".join(section.html() for section in sections))


def _headline(data: ReportData) -> str:
    cards = []
    for result in data.results.values():
        before, after = result.mean("before"), result.mean("after")
        if result.meta["headline"] and before is not None and after is not None:
            kind = result.format()
            unit = " %" if kind == "%" else ""
            change = f"{format_score(before, kind)}{unit} before ({signed(after - before, kind)})"
            cards.append(_card(result.title, f"{format_score(after, kind)}{unit}", change))
    others = len(data.languages) - 1
    cards.append(_card("Languages", f"{len(data.languages)}", f"{others} with {data.languages[data.hub].name}"))
    seconds = sum(manifest["seconds"] for manifest in data.manifests.values())
    cards.append(_card("Time", format_duration(seconds), f"in {len(data.manifests)} stages"))
    return f'<h1>{escaped(data.name)}</h1><p class="lead">Babelray report</p><div class="cards">{"".join(cards)}</div>'


def _card(title: str, figure: str, note: str) -> str:
    return f'<div class="card"><span>{escaped(title)}</span><b>{figure}</b><small>{escaped(note)}</small></div>'


def _usage(data: ReportData) -> Section | None:
    """How to load the encoder."""
    if data.encoder is None:
        return None
    lines = escaped("\n".join(encoder_usage(f"runs/{data.encoder}")))
    text = (
        f"The encoder is <code>{escaped(data.encoder)}</code> in the storage of the run, by default <code>runs</code>."
    )
    return Section("How to load the encoder", f"<p>{text}</p><pre>{lines}</pre>")


def _training(data: ReportData) -> Section | None:
    parts = [
        f"<h3>{TRAININGS[stage]}</h3>{figure(picture)}"
        for stage, rows in data.curves.items()
        if len(rows) > 1 and (picture := plots.curves(rows, TRAININGS[stage]))
    ]
    return Section("Training", "".join(parts)) if parts else None


def _cost(data: ReportData) -> Section:
    """Time by stage; tokens and speed of trainings; memory where the manifest has it."""
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
    foot = ["all", format_duration(sum(manifest["seconds"] for manifest in data.manifests.values()))]
    foot += ["" for _ in head[2:]]
    if not any(peaks.values()):
        head, foot, rows = head[:-1], foot[:-1], [row[:-1] for row in rows]
    text = "Time of each stage when it was made, possibly by an earlier run."
    tokens = " Tokens are subwords that training read, padding left out." if columns else ""
    return Section("Cost", f"<p>{text}{tokens}</p>{html_table(head, rows, foot)}")


PEAK = "peak_memory_bytes"
"""The metric of a manifest that holds the peak memory of a stage."""


def training_cost(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Totals from the speeds in a training's log: rate x time, summed over the entries; empty if there are none."""
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
        [
            *(escaped(cell) for cell in (code, data.languages[code].name)),
            *(f"{counts.get(name, 0):,}" for name in names),
            *(escaped(cell) for cell in (data.languages[code].native, data.languages[code].script)),
        ]
        for code, counts in data.statistics.items()
    ]
    return Section("Corpus", html_table(["code", "language", *names, "native name", "script"], rows))


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
    text = escaped(json.dumps(settings, indent=2, ensure_ascii=False))
    return Section(
        "Where every figure comes from",
        f"{html_table(['stage', 'fingerprint', 'code', 'made (UTC)'], rows)}<p>{escaped(made)}</p>"
        f"<details><summary>All settings</summary><pre>{text}</pre></details>",
    )
