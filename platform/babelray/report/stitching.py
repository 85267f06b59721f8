"""The page of the stitch stage: macro F1 of every system in every language.

The layout is that of Ye et al. (2024, Tables 1 and 2): a row for each system, a column for each language, means over
seeds; the best of a column is bold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from babelray.report import plots
from babelray.report.comparison import MARK, format_mean
from babelray.report.frame import Section, escaped, figure, format_p, markdown, page, signed, text_table
from babelray.stitching.scores import StitchingScores, distinct_anchor_counts

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.storage.artifact import Artifact

LanguageData = Mapping[str, Mapping[str, Any]]
"""{language: {words: …, covered: …, anchors: {system: …}}}"""

DIFFERENCES = (
    "Differences in points; p of a paired permutation test over examples, averaged over seeds, Holm's correction."
)


def render(artifact: Artifact, name: str, languages: Mapping[str, Language]) -> dict[str, str]:
    """The page and the tables, by file name."""
    scores = StitchingScores.load(artifact.location)
    data = (artifact.location / "languages.json").read_json()
    return {"stitching.html": html_page(name, scores, data, languages), "stitching.md": markdown_tables(scores, data)}


def score_table(scores: StitchingScores) -> list[list[str]]:
    """A header and a row for each system: macro F1 in per cent, the mean, by language, and in the hub."""
    means, columns = scores.means(), {code: scores.by_language(code) for code in scores.languages}
    rows = [["", "mean", *scores.languages, scores.hub]]
    for system in scores.metrics:
        in_hub = scores.in_hub(system)
        mean = _bold(format_mean(scores.by_seed(system)), means[system] == max(means.values()))
        cells = [_bold(f"{100 * c[system]:.1f}", c[system] == max(c.values())) for c in columns.values()]
        rows.append([system, mean, *cells, "–" if in_hub is None else f"{100 * in_hub:.1f}"])
    return rows


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def leaderboard_table(scores: StitchingScores) -> list[list[str]]:
    """A header and a row for each system, the best first, with a mark on those that are not significantly worse."""
    rows = [["", "macro F1 %", "examples right", "p"]]
    for rank in scores.leaderboard:
        name = f"{rank.system} ●" if rank.tied else rank.system
        rows.append([name, format_mean(scores.by_seed(rank.system)), f"{100 * rank.correct:.1f}", format_p(rank.p)])
    return rows


def difference_table(scores: StitchingScores) -> list[list[str]]:
    """A header and a row for each system: its difference to the baseline, and the p-value."""
    rows = [[f"against {scores.baseline}", "macro F1", "examples right", "p"]]
    for row in scores.differences:
        p = format_p(row.p) or "–"
        rows.append([row.system, signed(row.macro_f1, "%"), signed(row.correct, "%"), p])
    return rows


def language_table(data: LanguageData) -> list[list[str]]:
    """Words with a vector, how much of the texts they cover, and the anchors of each system."""
    systems = distinct_anchor_counts(data)
    rows = [["", "words", "covered %", *(f"anchors: {name}" for name in systems)]]
    for code, language in data.items():
        counts = [f"{language['anchors'][name]:,}" for name in systems]
        rows.append([code, f"{language['words']:,}", f"{100 * language['covered']:.0f}", *counts])
    return rows


def markdown_tables(scores: StitchingScores, data: LanguageData) -> str:
    """All tables as Markdown; ± is the standard deviation over seeds."""
    parts = [markdown(score_table(scores)), markdown(leaderboard_table(scores)), MARK]
    if scores.baseline is not None:
        parts += [markdown(difference_table(scores)), DIFFERENCES]
    return "\n\n".join([*parts, markdown(language_table(data))]) + "\n"


def html_page(name: str, scores: StitchingScores, data: LanguageData, languages: Mapping[str, Language]) -> str:
    """The page, with a bar for each system."""
    bars = plots.with_spread({system: scores.by_seed(system) for system in scores.metrics}, None, "Macro F1")
    head, *rows = score_table(scores)
    titles = [_name(code, languages) for code in head]
    body = [
        f"<h1>{escaped(name)}</h1><p class='lead'>Babelray: an encoder stitched to static vectors. Macro F1 in per "
        f"cent on a benchmark that was learned in {escaped(titles[-1])}; ± is the standard deviation over seeds. The "
        "last column is the language that it was learned in.</p>",
        Section("Every system in every language", text_table([titles, *rows]) + figure(bars)).html(),
        Section("The best", f"{text_table(leaderboard_table(scores))}<p>{MARK}</p>").html(),
    ]
    if scores.baseline is not None:
        title = f"Against {scores.baseline}"
        body.append(Section(title, f"{text_table(difference_table(scores))}<p>{DIFFERENCES}</p>").html())
    explanation = (
        "<p>Words with a static vector; the share of the pieces of the test texts that are such words; the number of "
        "anchors, once for all systems with the same.</p>"
    )
    body.append(Section("Vocabulary and anchors", explanation + text_table(language_table(data), languages)).html())
    return page(name, "".join(body))


def _name(code: str, languages: Mapping[str, Language]) -> str:
    return languages[code].name if code in languages else code
