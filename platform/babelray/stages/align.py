"""The align stage: the vectors of all languages in the space of the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.errors import DataError
from babelray.mapping.config import AlignConfig
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

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
        outcomes = run_tasks(tasks, job.progress, "languages")
        raw = [code for code, outcome in outcomes.items() if not outcome["mapped"] and code != settings.hub]
        if raw:
            job.say(f"left as extracted, since no mapping did better on held-back pairs: {', '.join(raw)}")
        return {"languages": len(outcomes), "mapped": len(outcomes) - 1 - len(raw), "by_language": outcomes}


def _align(code: str, hub: str, config: AlignConfig, extracted: Place, corpus: Place, out: Place) -> dict[str, Any]:
    """Map one language, unless its vectors do better as they are; say which it was and why."""
    from babelray.lexicon.pairs import read_pairs
    from babelray.mapping.procrustes import Procrustes, unit_centred
    from babelray.mapping.selection import compare
    from babelray.vectors.word_vectors import WordVectors

    source = WordVectors.load(extracted / "vectors" / code)
    mapping, outcome = Procrustes.identity(source.matrix), {"mapped": False, "pairs": 0}
    if code != hub:
        place = corpus / "dictionary" / f"{code}-{hub}"
        if not place.exists():
            raise DataError("the align stage needs a dictionary", "Name it in the recipe under `corpus.dictionary`.")
        target = WordVectors.load(extracted / "vectors" / hub)
        target = target.with_matrix(unit_centred(target.matrix)[0])
        pairs = [(pair.source, pair.target) for pair in read_pairs(place, "train")]
        pairs = [(a, b) for a, b in pairs if a in source.position and b in target.position]
        outcome["pairs"] = len(pairs)
        if len(pairs) >= config.min_pairs:
            outcome |= compare(source, target, pairs) if config.select else {"mapped": True}
        if outcome["mapped"]:
            rows = [(source.position[a], target.position[b]) for a, b in pairs]
            mapping = Procrustes.fit(source.matrix, target.matrix, rows)
    mapping.save(out / "mappings" / code)
    source.with_matrix(mapping.transform(source.matrix)).save(out / "vectors" / code)
    return outcome
