"""The README and the pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+) -->\n)?(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: Path
    language: str
    text: str
    reason: str | None
    """Why it is not run; None if it is."""


def blocks(language: str, page: Path | None = None) -> list[Block]:
    """The blocks of a language, on one page or on all."""
    return [
        Block(path, language, textwrap.dedent(match["text"]), match["reason"])
        for path in ([page] if page else PAGES)
        for match in BLOCK.finditer(path.read_text(encoding="utf-8"))
        if match["language"] == language
    ]


def command_lines() -> list[str]:
    """The lines of all shell blocks, without comments, each once, in the order of the pages."""
    texts = (block.text.replace("\\\n", " ") for block in blocks("bash") if block.reason is None)
    lines = (re.split(r"(?:^|\s)#", line)[0].strip() for text in texts for line in text.splitlines())
    return [line for line in dict.fromkeys(lines) if line]
