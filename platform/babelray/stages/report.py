"""The report stage: the pages of a run, drawn from the data of the other stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.languages import Language
from babelray.pipeline.stage import STAGES, Job, Stage
from babelray.pipeline.summary import Summary
from babelray.storage import Location

if TYPE_CHECKING:
    from babelray.recipe.run import Run
    from babelray.storage.artifact import Artifact


class ReportSettings(Config):
    name: str
    languages: dict[str, Language]


@STAGES.register
class ReportStage(Stage[ReportSettings]):
    """Draw the pages of a run: scores before and after, comparisons, mappings.

    Writes the pages as self-contained HTML, and as Markdown where they are tables.
    """

    name = "report"
    recipe_kinds = ("recipe", "simulation")
    follows = ("expose", "stitch", "map", "evaluate", "compare", "simulate")
    uses = ("corpus", "encoder", "extract", "align", "pretrain", *follows)

    def settings(self, recipe: Run) -> ReportSettings:
        return ReportSettings(name=recipe.name, languages=recipe.resolved_languages())

    def sources(self, settings: ReportSettings) -> list[Location]:
        from babelray.report.pages import FILES

        return [Location.parse(file) for file in FILES]

    def run(self, job: Job[ReportSettings]) -> dict[str, Any]:
        from babelray.report.pages import render_pages

        job.progress.update(0, 1, "pages")
        pages = render_pages(job.inputs, job.settings.name, job.settings.languages)
        for name, page in pages.items():
            (job.out / name).write_text(page)
        job.progress.update(1, 1, "pages")
        return {"pages": len(pages), "bytes": sum(len(page.encode()) for page in pages.values())}

    def summary(self, artifact: Artifact, settings: ReportSettings) -> Summary:
        pages = sorted(name for name in artifact.manifest["files"] if name.endswith(".html"))
        return Summary(files={name.removesuffix(".html").capitalize(): name for name in pages})
