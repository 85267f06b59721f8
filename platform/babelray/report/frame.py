"""The elements of pages: a self-contained frame, sections, tables that can be sorted, figures."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from babelray.metrics.format import format_p as format_p
from babelray.metrics.format import format_score as format_score

if TYPE_CHECKING:
    from babelray.languages import Language


STYLE = Path(__file__).with_name("report.css")
SCRIPT = Path(__file__).with_name("report.js")


@dataclass(frozen=True)
class Section:
    """A part of the page, with an entry in the list of contents."""

    title: str
    body: str

    @property
    def anchor(self) -> str:
        """
        >>> Section("Text classification: sib200", "").anchor
        'text-classification-sib200'
        """
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")

    def html(self) -> str:
        return f'<section id="{escaped(self.anchor)}"><h2>{escaped(self.title)}</h2>{self.body}</section>'


def page(title: str, body: str) -> str:
    """A self-contained page."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escaped(title)} – Babelray</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE.read_text()}</style></head><body><main>{body}</main>"
        f"<script>{SCRIPT.read_text()}</script></body></html>\n"
    )


def contents(sections: Sequence[Section]) -> str:
    """Links to the sections."""
    links = (f'<a href="#{escaped(section.anchor)}">{escaped(section.title)}</a>' for section in sections)
    return f'<nav aria-label="Contents">{"".join(links)}</nav>'


def html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    foot: Sequence[str] = (),
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """Cells are HTML already. `groups`: titles above the head, and how many columns each spans."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    above = "".join(f'<th colspan="{span}" scope="colgroup">{escaped(title)}</th>' for title, span in groups)
    above = f'<tr class="groups">{above}</tr>' if groups else ""
    titles = "".join(f'<th scope="col">{escaped(title)}</th>' for title in head)
    body = "".join(row(cells, "td") for cells in rows)
    foot_html = f"<tfoot>{row(foot, 'td')}</tfoot>" if foot else ""
    return (
        f'<div class="scroll"><table><thead>{above}<tr>{titles}</tr></thead>'
        f"<tbody>{body}</tbody>{foot_html}</table></div>"
    )


def markdown(table: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its header."""
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    return "\n".join([lines[0], "|---" * len(table[0]) + "|", *lines[1:]])


def text_table(table: Sequence[Sequence[str]], languages: Mapping[str, Language] | None = None) -> str:
    """An HTML table of text cells, the first row its header; `**bold**` and `*italic*` are those of Markdown.

    `languages`: their codes at the start of a row are replaced by their names.

    >>> text_table([["", "score"], ["a<b", "**1**"]]).count("<td>a&lt;b</td><td><b>1</b></td>")
    1
    """
    names = {code: language.name for code, language in (languages or {}).items()}
    rows = [[names.get(first, first), *cells] for first, *cells in table[1:]]
    return html_table(table[0], [[_marked_up(cell) for cell in row] for row in rows])


def _marked_up(text: str) -> str:
    for mark, tag in (("**", "b"), ("*", "i")):
        if text.startswith(mark) and text.endswith(mark) and len(text) > 2 * len(mark):
            return f"<{tag}>{escaped(text[len(mark) : -len(mark)])}</{tag}>"
    return escaped(text)


def figure(picture: str, caption: str = "") -> str:
    """A picture in a box of its own; the caption is HTML already."""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure><div class="scroll">{picture}</div>{below}</figure>'


def duration(seconds: float) -> str:
    """A duration that still sorts as a number.

    >>> duration(42.4), duration(3725)
    ('<data value="42.4">42.4 s</data>', '<data value="3725">1 h 02 min</data>')
    """
    return f'<data value="{seconds}">{format_duration(seconds)}</data>'


def format_duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours.

    >>> format_duration(9.96), format_duration(59.96), format_duration(125), format_duration(3599.9)
    ('10.0 s', '1 min 00 s', '2 min 05 s', '1 h 00 min')
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return f"{round(seconds) // 60} min {round(seconds) % 60:02} s"
    return f"{round(seconds / 60) // 60} h {round(seconds / 60) % 60:02} min"


def signed(value: float, kind: str) -> str:
    """A difference with its sign, of shares in points.

    >>> signed(0.051, "%"), signed(-0.25, ".3f")
    ('+5.1', '−0.250')
    """
    text = f"{100 * value:+.1f}" if kind == "%" else format(value, f"+{kind}")
    return text.replace("-", "−")


def escaped(value: str) -> str:
    return html.escape(value)
