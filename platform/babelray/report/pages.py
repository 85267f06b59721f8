"""All pages of a run: each topic's module draws those of one stage's artifact from its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from babelray.report import comparison, exposure, mapping, run, simulation, stitching
from babelray.report.frame import SCRIPT, STYLE
from babelray.report.published import FIGURES

if TYPE_CHECKING:
    from babelray.languages import Language
    from babelray.storage.artifact import Artifact

FILES = (STYLE, SCRIPT, FIGURES)
"""What pages are made of besides code."""
MODULES: dict[str, Any] = {
    "compare": comparison,
    "expose": exposure,
    "map": mapping,
    "simulate": simulation,
    "stitch": stitching,
}
"""The module whose `render` draws the artifact of a stage."""


def render_pages(artifacts: Mapping[str, Artifact], name: str, languages: Mapping[str, Language]) -> dict[str, str]:
    """The pages by file name; `artifacts` are those of a run, by stage."""
    pages: dict[str, str] = {}
    for stage, module in MODULES.items():
        if stage in artifacts:
            pages |= module.render(artifacts[stage], name, languages)
    if "evaluate" in artifacts:
        pages |= run.render(artifacts["evaluate"], name, languages, artifacts)
    return pages
