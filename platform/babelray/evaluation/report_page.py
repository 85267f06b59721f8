"""What the pages are made of: a self-contained frame, sections, tables that can be sorted, figures."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STYLE = Path(__file__).with_name("report.css")
SCRIPT = Path(__file__).with_name("report.js")


@dataclass(frozen=True)
class Section:
    """A part of the page, with a place of its own in the list of contents."""

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


def figure(picture: str, caption: str = "") -> str:
    """A picture in a box of its own; the caption is HTML already."""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure><div class="scroll">{picture}</div>{below}</figure>'


def duration(seconds: float) -> str:
    """Time as people say it, that still sorts as a number.

    >>> duration(42.4), duration(3725)
    ('<data value="42.4">42.4 s</data>', '<data value="3725">1 h 02 min</data>')
    """
    return f'<data value="{seconds}">{spoken(seconds)}</data>'


def spoken(seconds: float) -> str:
    """Time as people say it.

    >>> spoken(9.96), spoken(59.96), spoken(125), spoken(3599.9)
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


def shown(value: float, kind: str) -> str:
    """A figure of a kind: `%` for shares, else a format.

    >>> shown(0.5, "%"), shown(1234, ",.0f")
    ('50.0', '1,234')
    """
    return f"{100 * value:.1f}" if kind == "%" else format(value, kind)


def escaped(value: str) -> str:
    return html.escape(value)
