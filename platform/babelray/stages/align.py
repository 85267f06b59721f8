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
    from babelray.vectors.word_vectors import WordVectors


class Settings(Config):
    languages: list[str]
    hub: str
    seed: int
    align: AlignConfig


class AlignStage(Stage[Settings]):
    """Leaves `vectors/<language>/` in one space, and `mappings/<language>/`, which map new words."""

    name = "align"
    needs = ("corpus", "extract")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, hub=recipe.hub, seed=recipe.seed, align=recipe.align)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        places = (job.source("extract"), job.source("corpus"), job.out)
        tasks = [Task(code, _align, (code, settings, *places)) for code in settings.languages]
        outcomes = run_tasks(tasks, job.progress, "languages")
        raw = [code for code, outcome in outcomes.items() if not outcome["mapped"] and code != settings.hub]
        if raw:
            job.say(f"left as extracted, since no mapping did better on held-back pairs: {', '.join(raw)}")
        (job.out / "work").delete()
        return {"languages": len(outcomes), "mapped": len(outcomes) - 1 - len(raw), "by_language": outcomes}


def _align(code: str, settings: Settings, extracted: Place, corpus: Place, out: Place) -> dict[str, Any]:
    """Map one language, unless its vectors do better as they are; say which it was and why."""
    from functools import partial

    from babelray.mapping.build import map_to_hub
    from babelray.mapping.linear import LinearMapping
    from babelray.mapping.selection import compare, positions
    from babelray.vectors.word_vectors import WordVectors

    config, done = settings.align, out / "work" / f"{code}.json"
    if done.exists():
        return done.read_json()
    source = WordVectors.load(extracted / "vectors" / code)
    mapping, outcome = LinearMapping.identity(source.matrix), {"mapped": False, "pairs": 0}
    if code != settings.hub:
        hub = WordVectors.load(extracted / "vectors" / settings.hub)
        seen = hub.with_matrix(LinearMapping.identity(hub.matrix).transform(hub.matrix))
        pairs = _pairs(code, settings, source, hub, corpus)
        fit = partial(map_to_hub, source.matrix, hub.matrix, config=config, seed=settings.seed)
        if pairs is None:
            mapping, outcome["mapped"] = fit(None), True
        else:
            outcome["pairs"] = len(pairs)
            if len(pairs) >= config.min_pairs:
                outcome |= compare(source, seen, pairs, fit) if config.select else {"mapped": True}
            if outcome["mapped"]:
                mapping = fit(positions(source, hub, pairs))
    mapping.save(out / "mappings" / code)
    source.with_matrix(mapping.transform(source.matrix)).save(out / "vectors" / code)
    done.write_json(outcome)
    return outcome


def _pairs(
    code: str, settings: Settings, source: WordVectors, hub: WordVectors, corpus: Place
) -> list[tuple[str, str]] | None:
    """What the mapping learns from; None for nothing."""
    from babelray.lexicon.pairs import read_pairs

    if settings.align.dictionary == "none":
        return None
    if settings.align.dictionary == "identical":
        return [(word, word) for word in source.words if word in hub.position]
    place = corpus / "dictionary" / f"{code}-{settings.hub}"
    if not place.exists():
        raise DataError(
            "the align stage needs a dictionary", "Name it under `corpus.dictionary`, or set align.dictionary."
        )
    pairs = [(pair.source, pair.target) for pair in read_pairs(place, "train")]
    return [(a, b) for a, b in pairs if a in source.position and b in hub.position]
