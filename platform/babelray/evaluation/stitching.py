"""What stitching is worth: macro F1 of every system in every language, as tables and a page.

The layout is that of Ye et al. (2024, Tables 1 and 2): systems down, languages across, means over seeds; the best of a
column is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.evaluation import plots
from babelray.evaluation.comparison import MARK, TaskScores, markdown, shown
from babelray.evaluation.hits import p_value
from babelray.evaluation.report_page import escaped, figure, html_table, page, signed
from babelray.evaluation.significance import holm

if TYPE_CHECKING:
    from babelray.evaluation.hits import Hits
    from babelray.languages import Language

BySystem = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""{system: {language: {macro_f1 | accuracy | in_hub: a value for each seed}}}"""
Languages = Mapping[str, Mapping[str, Any]]
"""{language: {words: …, covered: …, anchors: {system: …}}}"""


@dataclass(frozen=True)
class Scores:
    """The scores of every system; `hits` says for each seed which examples of a language it got right."""

    hub: str
    by_system: BySystem
    hits: Mapping[str, Sequence[Hits]]
    baseline: str | None = None
    """The system that all others are compared with: least squares, if there is one."""

    @property
    def codes(self) -> list[str]:
        return list(next(iter(self.by_system.values())))

    def by_seed(self, system: str) -> list[float]:
        """Macro F1, the mean over languages, for each seed."""
        columns = [scores["macro_f1"] for scores in self.by_system[system].values()]
        return [fmean(seed) for seed in zip(*columns, strict=True)]

    def means(self) -> dict[str, float]:
        """Macro F1 of every system, the mean over languages and seeds."""
        return {system: fmean(self.by_seed(system)) for system in self.by_system}

    def board(self) -> list[list[str]]:
        """The systems, the best first, with a mark on those that are not significantly worse."""
        means = {system: self.by_seed(system) for system in self.by_system}
        return TaskScores("stitching", "macro F1 %", True, means, self.hits).board()


def table(scores: Scores) -> list[list[str]]:
    """A header and a line for each system: macro F1 in per cent, the mean, by language, and that in the hub."""
    codes, means = scores.codes, scores.means()
    columns = {code: {name: fmean(own[code]["macro_f1"]) for name, own in scores.by_system.items()} for code in codes}
    lines = [["", "mean", *codes, scores.hub]]
    for name, own in scores.by_system.items():
        cells = [_marked(columns[code][name], columns[code]) for code in codes]
        mean = shown(scores.by_seed(name))
        in_hub = [value for row in own.values() for value in row["in_hub"]]
        mean = f"**{mean}**" if means[name] == max(means.values()) else mean
        lines.append([name, mean, *cells, f"{100 * fmean(in_hub):.1f}" if in_hub else "–"])
    return lines


def _marked(value: float, column: Mapping[str, float]) -> str:
    text = f"{100 * value:.1f}"
    return f"**{text}**" if value == max(column.values()) else text


def against_table(scores: Scores) -> list[list[str]]:
    """A header and a line for each system: how far it is above the baseline, and whether that may be chance."""
    assert scores.baseline is not None
    means, own = scores.means(), _averaged(scores.hits[scores.baseline])
    others = [name for name in scores.by_system if name != scores.baseline]
    found = {name: p_value(_averaged(scores.hits[name]), own) for name in others}
    known = [p for p in found.values() if p is not None]
    corrected = iter(holm(known))
    lines = [[f"against {scores.baseline}", "macro F1", "examples right", "p"]]
    for name in others:
        right = fmean(map(fmean, _averaged(scores.hits[name]).values())) - fmean(map(fmean, own.values()))
        p = "–" if found[name] is None else f"{next(corrected):.3f}"
        lines.append([name, signed(means[name] - means[scores.baseline], "%"), signed(right, "%"), p])
    return lines


def _averaged(seeds: Sequence[Hits]) -> Hits:
    """The score of each example, the mean over seeds."""
    return {code: [fmean(some) for some in zip(*(hits[code] for hits in seeds), strict=True)] for code in seeds[0]}


def language_table(languages: Languages) -> list[list[str]]:
    """What there was to stitch with: words, how much of the texts they cover, and the anchors of each system."""
    systems = list(dict.fromkeys(name for about in languages.values() for name in about["anchors"]))
    distinct = {tuple(about["anchors"][name] for about in languages.values()): name for name in reversed(systems)}
    kept = [name for name in systems if name in distinct.values()]
    lines = [["", "words", "covered %", *(f"anchors: {name}" for name in kept)]]
    for code, about in languages.items():
        counts = [f"{about['anchors'][name]:,}" for name in kept]
        lines.append([code, f"{about['words']:,}", f"{100 * about['covered']:.0f}", *counts])
    return lines


AGAINST = (
    "Differences in points; p of a paired permutation test over examples, each seed's averaged, Holm's correction."
)


def stitching_tables(scores: Scores, languages: Languages) -> str:
    """All tables as Markdown; ± is the standard deviation over seeds."""
    parts = [markdown(table(scores)), markdown(scores.board()), MARK]
    if scores.baseline is not None:
        parts += [markdown(against_table(scores)), AGAINST]
    return "\n\n".join([*parts, markdown(language_table(languages))]) + "\n"


def stitching_page(name: str, scores: Scores, languages: Languages, named: Mapping[str, Language]) -> str:
    """The page."""
    picture = plots.with_spread({system: scores.by_seed(system) for system in scores.by_system}, None, "Macro F1")
    head, *lines = table(scores)
    titles = [named[code].name if code in named else code for code in head]
    body = [
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray: an encoder stitched to static vectors. Macro F1 in per "
        f"cent on a task that was learned in {escaped(titles[-1])}; ± is the standard deviation over seeds. The last "
        "column is the language that it was learned in.</p>",
        f"<section><h2>Every system in every language</h2>{_html([titles, *lines])}{figure(picture)}</section>",
        f"<section><h2>The best</h2>{_html(scores.board())}<p>{MARK}</p></section>",
        f"<section><h2>Against least squares</h2>{_html(against_table(scores))}<p>{AGAINST}</p></section>"
        if scores.baseline is not None
        else "",
        f"<section><h2>What there was to stitch with</h2><p>Words with a static vector; the share of the test texts' "
        "words and parts of words that are such words; the anchors, once for all systems that have the same.</p>"
        f"{_html(_named(language_table(languages), named))}</section>",
    ]
    return page(name, "".join(body))


def _named(lines: Sequence[Sequence[str]], named: Mapping[str, Language]) -> list[Sequence[str]]:
    return [[named[first].name if first in named else first, *cells] for first, *cells in lines]


def _html(lines: Sequence[Sequence[str]]) -> str:
    def cell(text: str) -> str:
        return f"<b>{escaped(text[2:-2])}</b>" if text.startswith("**") else escaped(text)

    return html_table(lines[0], [[cell(text) for text in row] for row in lines[1:]])
