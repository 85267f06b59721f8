"""The align stage: the vectors of all languages in the space of the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.errors import DataError
from babelray.mapping.config import AlignConfig
from babelray.stages.stage import Job, Stage
from babelray.stages.tasks import Task, run_tasks
from babelray.storage import Place

if TYPE_CHECKING:
    from babelray.recipe import Recipe


class Settings(Config):
    languages: list[str]
    hub: str
    align: AlignConfig


class AlignStage(Stage[Settings]):
    """Leaves `vectors/<language>/` in one space, and `mappings/<language>/`, which map new words."""

    name = "align"
    needs = ("corpus", "extract")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, hub=recipe.hub, align=recipe.align)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        tasks = [
            Task(
                code, _align, (code, settings.hub, settings.align, job.source("extract"), job.source("corpus"), job.out)
            )
            for code in settings.languages
        ]
        pairs = run_tasks(tasks, job.progress, "languages")
        kept = [code for code, used in pairs.items() if used == 0 and code != settings.hub]
        if kept:
            job.say(f"too few dictionary pairs, kept in their own space: {', '.join(kept)}")
        return {"languages": len(pairs), "pairs": pairs, "unmapped": kept}


def _align(code: str, hub: str, config: AlignConfig, extracted: Place, corpus: Place, out: Place) -> int:
    """Map one language; return the number of dictionary pairs that were used, 0 if it was left in its own space."""
    from babelray.lexicon.pairs import read_pairs
    from babelray.mapping.procrustes import Procrustes, unit_centred
    from babelray.vectors.word_vectors import WordVectors

    source = WordVectors.load(extracted / "vectors" / code)
    pairs: list[tuple[int, int]] = []
    mapping = Procrustes.identity(source.matrix)
    if code != hub:
        place = corpus / "dictionary" / f"{code}-{hub}.parquet"
        if not place.exists():
            raise DataError("the align stage needs a dictionary", "Name it in the recipe under `corpus.dictionary`.")
        target = WordVectors.load(extracted / "vectors" / hub)
        pairs = [
            (source.position[pair.source], target.position[pair.target])
            for pair in read_pairs(place, "train")
            if pair.source in source.position and pair.target in target.position
        ]
        if len(pairs) < config.min_pairs:
            pairs = []
        else:
            mapping = Procrustes.fit(source.matrix, unit_centred(target.matrix)[0], pairs)
    mapping.save(out / "mappings" / code)
    source.with_matrix(mapping.transform(source.matrix)).save(out / "vectors" / code)
    return len(pairs)
