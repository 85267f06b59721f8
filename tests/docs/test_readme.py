"""The README is short, and links of all documents lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import ROOT
from support.documents import README

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / ".github").rglob("*.md"),
    *(ROOT / "platform").rglob("*.md"),
    *(ROOT / "k8s").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
]
"""All but `docs/`, whose links the build of the site checks."""
FIGURES = re.compile(r"<!-- figures of babelray-mini -->\n(.+?)<!-- end of figures -->", re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_readme_fits_a_few_screens() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 115
    prose = [line for line in lines if not line.startswith(("|", "!", "babelray"))]
    assert max(map(len, prose)) <= 100


def test_anchors_of_the_readme_are_headings() -> None:
    for page, fragment in re.findall(r"\((docs/[\w/-]+\.md)#([\w-]+)\)", README.read_text(encoding="utf-8")):
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert fragment in {_slug(heading) for heading in headings}, fragment


def _slug(heading: str) -> str:
    """The anchor of a heading, without accents, as the site has it."""
    import unicodedata

    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@pytest.mark.parametrize("document", [README, ROOT / "docs/results.md"], ids=lambda path: path.name)
def test_figures_of_the_shipped_encoder_can_be_replaced(document: Path) -> None:
    """Whoever trains a new one finds all of them between two comments."""
    (block,) = FIGURES.findall(document.read_text(encoding="utf-8"))
    assert "%" in block
