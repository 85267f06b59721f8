"""The report stage: all figures of a run on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.evaluation.report import SCRIPT, STYLE, ReportData, render
from babelray.languages import Language
from babelray.stages.stage import Job, Stage
from babelray.storage import Place

if TYPE_CHECKING:
    from babelray.recipe import Recipe


class Settings(Config):
    name: str
    hub: str
    languages: dict[str, Language]


class ReportStage(Stage[Settings]):
    """Leaves `report.html`, self-contained."""

    name = "report"
    needs = ("corpus", "encoder", "extract", "align", "pretrain", "evaluate")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(name=recipe.name, hub=recipe.hub, languages=recipe.resolved_languages())

    def sources(self, settings: Settings) -> list[Place]:
        return [Place.parse(STYLE), Place.parse(SCRIPT)]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        job.progress.update(0, 1, "pages")
        curves = {
            stage: place.read_json()
            for stage in ("encoder", "pretrain")
            if (place := job.source(stage) / "curves.json").exists()
        }
        found = {
            name: place.read_json()
            for name in ("matrix", "tasks", "retrieval_matrix", "picture")
            if (place := job.source("evaluate") / f"{name}.json").exists()
        }
        page = render(
            ReportData(
                name=job.settings.name,
                hub=job.settings.hub,
                languages=job.settings.languages,
                scores=(job.source("evaluate") / "scores.json").read_json(),
                statistics=(job.source("corpus") / "statistics.json").read_json()["text"],
                curves=curves,
                manifests={stage: artifact.manifest for stage, artifact in job.inputs.items()},
                **found,
            )
        )
        (job.out / "report.html").write_text(page)
        job.progress.update(1, 1, "pages")
        return {"bytes": len(page.encode())}
