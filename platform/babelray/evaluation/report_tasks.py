"""The report's sections of the tasks that a recipe lists: figures before and after, and what papers published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.evaluation import plots
from babelray.evaluation.papers import published
from babelray.evaluation.report_page import Section, escaped, figure, html_table, shown, signed
from babelray.languages import LANGUAGES

if TYPE_CHECKING:
    from babelray.languages import Language

SURE = 0.05
Scores = Mapping[str, Mapping[str, float]]
"""{language: {measure: value}}"""

TEXTS = {
    "classification": (
        "Text classification",
        "A classifier on top of the encoder is trained in one language, English unless the recipe says otherwise, and "
        "tested in all: what carries over is what the languages share. Mean over seeds of the training. So did "
        "Alqahtani et al. (2021) with XNLI, and Ye et al. (2024) with reviews and Taxi1500.",
    ),
    "contextual-bli": (
        "Word translation in context",
        "Share of words in a sentence whose nearest word in the other language, each in its own context, is the one "
        "that translates it in that very sentence. Contextual lexicon induction (CBLI), by Zhao and Eger (2022).",
    ),
    "entity-linking": (
        "Entity linking",
        "Share of mentions, each encoded alone, whose nearest name in the knowledge base names the same concept. "
        "XL-BEL by Liu et al. (2021), as used by Vulić et al. (2023).",
    ),
    "geometry": (
        "The shape of the space",
        "Parallel sentences, looked at from outside. “Language told”: how often a linear classifier recognises the "
        "language of a vector; the lower, the more neutral is the space. Gap and eigenvector distance: how unlike the "
        "shapes of two languages are. Hubness: whether a few sentences are neighbours of all others. Lower is "
        "better in all of these.",
    ),
    "mt-quality": (
        "Translation quality without references",
        "How well the distance between a sentence and its machine translation agrees with people's judgement of the "
        "translation: Pearson's correlation. The reference-free evaluation (RFEval) of Zhao and Eger (2022), by "
        "XMover (Zhao et al., 2020).",
    ),
    "question-answering": (
        "Question answering",
        "The encoder learns in one language, English unless the recipe says otherwise, to find the answer to a "
        "question in a text, and is tested in all. F1 counts shared words, exact match whole answers. Mean over seeds "
        "of the training. So did Hämmerl et al. (2022) and Alqahtani et al. (2021) with XQuAD.",
    ),
    "tagging": (
        "Tagging of words",
        "A tagger on top of the encoder is trained in one language, English unless the recipe says otherwise, and "
        "tested in all: parts of speech, or names. Mean over seeds of the training. So did Hämmerl et al. (2022) with "
        "UD-POS and PAN-X.",
    ),
    "tatoeba": (
        "Sentence retrieval with the hub",
        "Share of sentences whose nearest neighbour in the other language is their translation, both directions "
        "averaged; nothing is trained for it. The Tatoeba task of Artetxe and Schwenk (2019), as in Hämmerl et al. "
        "(2022) and Zhao and Eger (2022).",
    ),
    "word-alignment": (
        "Word alignment",
        "Links between the words of a sentence and of its translation, from the similarity of their vectors, against "
        "links that people made: F1, and the alignment error rate, of which less is better. SimAlign (Jalili Sabet et "
        "al., 2020), as in Zhao and Eger (2022).",
    ),
}
"""What each task is called and what it measures, in plain words."""

MEASURES = {
    "to_hub": "to the hub",
    "from_hub": "from the hub",
    "mean": "both directions",
    "mean_margin": "margin",
    "f1": "F1",
    "macro_f1": "macro F1",
    "em": "exact match",
    "exact_match": "exact match",
    "aer": "error rate",
    "p1": "P@1",
    "p5": "P@5",
    "mrr": "MRR",
    "word_p1": "the word, P@1",
    "coverage": "can be linked",
    "pearson": "Pearson",
    "kendall": "Kendall",
    "spearman": "Spearman",
    "bleu_pearson": "BLEU's Pearson",
}
"""Measures whose names do not speak for themselves."""

LEGEND = (
    f"<b>Bold</b>: before and after differ by more than chance (p &lt; {SURE}; paired permutation test over the "
    "examples, not corrected for the number of languages)."
)
SPREAD = "± is the standard deviation over seeds."


def task_title(label: str, about: Mapping[str, Any]) -> str:
    title = TEXTS[about["task"]][0] if about["task"] in TEXTS else about["task"]
    return title if label == about["task"] else f"{title}: {label}"


def task_section(
    label: str, about: Mapping[str, Any], languages: Mapping[str, Language], papers: bool = True
) -> Section:
    """`about`: what `tasks.json` says of the task; see the evaluate stage. `papers`: with what was published."""
    title, main = task_title(label, about), about["main"]
    before, after = about["results"]["before"], about["results"]["after"]
    parts = [f"<p>{escaped(TEXTS[about['task']][1])}</p>"] if about["task"] in TEXTS else []
    if about["columns"][main] == "%" and _column(after, main):
        spreads = {when: _column(scores, f"{main}_spread") for when, scores in about["results"].items()}
        picture = plots.before_after(_column(before, main), _column(after, main), title, spreads)
        parts.append(figure(picture))
    parts.append(_table(about, before, after, languages))
    notes = [LEGEND] if about["p"] else []
    notes += [SPREAD] if any(f"{main}_spread" in values for values in after.values()) else []
    parts += [f'<p class="note">{" ".join(notes)}</p>'] if notes else []
    parts += [published_table(about["task"])] if papers else []
    return Section(title, "".join(parts))


def task_sections(tasks: Mapping[str, Mapping[str, Any]], languages: Mapping[str, Language]) -> list[Section]:
    """Of all tasks; what was published stands below the first of its kind."""
    first = {about["task"]: label for label, about in reversed(list(tasks.items()))}
    return [task_section(label, about, languages, label == first[about["task"]]) for label, about in tasks.items()]


def overview(tasks: Mapping[str, Mapping[str, Any]]) -> Section:
    """The main measure of every task, the mean over languages."""
    rows = []
    for label, about in tasks.items():
        main, kind = about["main"], about["columns"][about["main"]]
        section = Section(task_title(label, about), "")
        link = f'<a href="#{escaped(section.anchor)}">{escaped(section.title)}</a>'
        both = _shared(about["results"]["before"], about["results"]["after"], main)
        rows.append([link, escaped(named(main, kind)), f"{len(both)}", *_compared(both, kind, about["p"].get(""))])
    text = "<p>The main measure of each task, the mean over its languages.</p>"
    head = ["task", "measure", "languages", "before", "after", "change", "p"]
    legend = f'<p class="note">{LEGEND}</p>' if any(about["p"] for about in tasks.values()) else ""
    return Section("All tasks", f"{text}{html_table(head, rows)}{legend}")


def named(measure: str, kind: str) -> str:
    return MEASURES.get(measure, measure.replace("_", " ")) + (", %" if kind == "%" else "")


def language_name(code: str, languages: Mapping[str, Language]) -> str:
    """Of a language, or of a pair such as `de-en` or `ende`; empty if not known.

    >>> language_name("ende", {}), language_name("de-fr", {}), language_name("xx", {})
    ('English – German', 'German – French', '')
    """
    known = {**LANGUAGES, **languages}
    if code in known:
        return known[code].name
    pair = code.split("-") if "-" in code else [code[:2], code[2:]]
    return " – ".join(known[one].name for one in pair) if all(one in known for one in pair) else ""


def published_table(task: str) -> str:
    """The papers' figures for a task, under a heading that nobody takes for ours; empty if there are none."""
    figures = published(task)
    if not figures:
        return ""
    lines: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for one in figures:
        key = (one.system, one.encoder, one.data, one.measure, f"{one.paper.short}, {one.table}")
        lines.setdefault(key, []).append((one.languages, one.printed))
    rows = []
    for (system, encoder, data, measure, source), values in lines.items():
        where, value = ", ".join(languages for languages, _ in values), " / ".join(printed for _, printed in values)
        rows.append([escaped(cell) for cell in (system, encoder, data, where, measure, value, source)])
    papers = {one.paper.short: one.paper for one in figures}
    trained = "".join(
        f"<li>{escaped(name)}, <cite>{escaped(paper.title)}</cite>: trained on {escaped(paper.trained)}.</li>"
        for name, paper in papers.items()
    )
    head = ["system", "encoder", "data", "languages", "measure", "value", "paper"]
    return (
        '<details class="published"><summary>Published figures, not of this run</summary>'
        "<p>Copied from the papers, to know what others reached. They were measured with the encoders and data that "
        "are named here, not with those of this run: a difference from the figures above says little about the method. "
        f"Per cent, unless the measure says otherwise.</p>{html_table(head, rows)}<ul>{trained}</ul></details>"
    )


def _table(about: Mapping[str, Any], before: Scores, after: Scores, languages: Mapping[str, Language]) -> str:
    """Languages down; the main measure with its change, then the others, and counts once."""
    main, columns, p = about["main"], about["columns"], about["p"]
    measures = [m for m in columns if not m.endswith("_spread") and any(m in values for values in after.values())]
    counts = [m for m in measures if columns[m] == ",.0f" and m != main and _same(before, after, m)]
    others = [m for m in measures if m not in counts and m != main]
    tested = ["p"] if p else []
    head = ["code", "language", "before", "after", "change", *tested, *["before", "after"] * len(others)]
    head += [named(m, columns[m]) for m in counts]
    groups = [("", 2), (named(main, columns[main]), 3 + len(tested)), *((named(m, columns[m]), 2) for m in others)]
    groups += [("", len(counts))] if counts else []
    rows = [
        [
            escaped(code),
            escaped(language_name(code, languages)),
            *_difference(before.get(code, {}), after[code], main, columns[main], p.get(code), bool(p)),
            *(_cell(some.get(code, {}), m, columns[m]) for m in others for some in (before, after)),
            *(_cell(after[code], m, columns[m]) for m in counts),
        ]
        for code in after
    ]
    foot = ["", "mean", *_compared(_shared(before, after, main), columns[main], p.get(""))[: 3 + len(tested)]]
    for m in others:
        both = _shared(before, after, m)
        foot += [shown(fmean(side), columns[m]) for side in zip(*both, strict=True)] if both else ["", ""]
    foot += ["" for _ in counts]
    return html_table(head, rows, foot if len(after) > 1 else (), groups)


def _difference(
    before: Mapping[str, float], after: Mapping[str, float], measure: str, kind: str, p: float | None, tested: bool
) -> list[str]:
    """Before, after, change and, in a table that has them, the p-value."""
    both = _known(before, measure) and _known(after, measure)
    change = _bold(signed(after[measure] - before[measure], kind), p) if both else ""
    cells = [_cell(before, measure, kind), _cell(after, measure, kind), change]
    return [*cells, _p(p)] if tested else cells


def _compared(both: Sequence[tuple[float, float]], kind: str, p: float | None) -> list[str]:
    """The means before and after, the change, the p-value."""
    if not both:
        return ["", "", "", ""]
    before, after = (fmean(side) for side in zip(*both, strict=True))
    return [shown(before, kind), shown(after, kind), _bold(signed(after - before, kind), p), _p(p)]


def _cell(values: Mapping[str, float], measure: str, kind: str) -> str:
    if not _known(values, measure):
        return ""
    spread = values.get(f"{measure}_spread")
    return shown(values[measure], kind) + (f" ± {shown(spread, kind)}" if spread is not None else "")


def _bold(text: str, p: float | None) -> str:
    return f"<b>{text}</b>" if p is not None and p < SURE else text


def _p(p: float | None) -> str:
    return "" if p is None else _bold("&lt; 0.001" if p < 0.001 else f"{p:.3f}", p)


def _column(scores: Scores, measure: str) -> dict[str, float]:
    return {code: values[measure] for code, values in scores.items() if _known(values, measure)}


def _known(values: Mapping[str, float], measure: str) -> bool:
    """Whether it was measured, and is a number: the correlation of what does not vary is none."""
    return measure in values and not math.isnan(values[measure])


def _shared(before: Scores, after: Scores, measure: str) -> list[tuple[float, float]]:
    """The values before and after of the languages that have both."""
    first, second = _column(before, measure), _column(after, measure)
    return [(first[code], second[code]) for code in second if code in first]


def _same(before: Scores, after: Scores, measure: str) -> bool:
    return all(first == second for first, second in _shared(before, after, measure))
