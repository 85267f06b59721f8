"""LaTeX as MathML, made while the site is built, so that no page loads a script.

A block is fenced as ```` ```math ````, and inline mathematics is written as in ``$`x_i`$``: both as on code forges.
"""

from __future__ import annotations

import re
from itertools import count

from latex2mathml.converter import convert

BLOCK = re.compile(r"^( *)```math\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)\$`([^`]+)`\$(?!`)")


class Equations:
    """The equations of a page, which stand in its Markdown as words that Markdown leaves alone."""

    def __init__(self) -> None:
        self.converted: dict[str, str] = {}
        self.numbers = count()

    def extract(self, markdown: str) -> str:
        """Markdown with a placeholder for each equation."""
        markdown = BLOCK.sub(lambda match: f"{match[1]}{self._add(match[2], 'block')}", markdown)
        return INLINE.sub(lambda match: self._add(match[1], "inline"), markdown)

    def insert(self, html: str) -> str:
        """A page with its equations."""
        for placeholder, mathml in self.converted.items():
            html = html.replace(placeholder, mathml)
        return html

    def _add(self, latex: str, display: str) -> str:
        placeholder = f"equation{next(self.numbers)}x{display}"
        self.converted[placeholder] = convert(" ".join(latex.split()), display=display)
        return placeholder
