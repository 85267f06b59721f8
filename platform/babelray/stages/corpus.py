"""The corpus stage: text of every language into clean sentences, vocabularies, and pairs with the hub."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.languages import Language
from babelray.lexicon.pairs import dictionary_pairs, parallel_pairs, write_pairs
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.text.config import CorpusConfig
from babelray.text.corpus import source_files
from babelray.text.shards import build_corpus

if TYPE_CHECKING:
    from babelray.recipe import Recipe


class Settings(Config):
    languages: dict[str, Language]
    hub: str
    corpus: CorpusConfig


class CorpusStage(Stage[Settings]):
    """Leaves `sentences/`, `vocabulary/`, `parallel/`, `dictionary/` (parquet) and `statistics.json`."""

    name = "corpus"

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.resolved_languages(), hub=recipe.hub, corpus=recipe.corpus)

    def sources(self, settings: Settings) -> list[Place]:
        config = settings.corpus
        patterns = [p for p in (config.text, config.parallel, config.dictionary) if p]
        return sorted({file for p in patterns for code in settings.languages for file in source_files(p, code)})

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        held_out = self._write_pairs(job)
        statistics = build_corpus(settings.languages, settings.corpus, held_out, job.out, job.progress)
        (job.out / "statistics.json").write_json(statistics)
        total: Counter[str] = Counter()
        for counts in statistics.values():
            total.update(counts)
        return {"languages": len(statistics), **total}

    def _write_pairs(self, job: Job[Settings]) -> dict[str, frozenset[str]]:
        """Write the pairs with the hub; return the sentences of each language that are held out."""
        config, hub = job.settings.corpus, job.settings.hub
        tested: dict[str, set[str]] = {code: set() for code in job.settings.languages}
        for code in job.settings.languages:
            if code == hub:
                continue
            if config.parallel:
                pairs = parallel_pairs(config.parallel, code, hub, config.held_out)
                tested[code].update(pair.source for pair in pairs if pair.split == "test")
                tested[hub].update(pair.target for pair in pairs if pair.split == "test")
                write_pairs(job.out / "parallel" / f"{code}-{hub}.parquet", pairs)
            if config.dictionary:
                words = dictionary_pairs(config.dictionary, code, hub, config.held_out)
                write_pairs(job.out / "dictionary" / f"{code}-{hub}.parquet", words)
        return {code: frozenset(sentences) for code, sentences in tested.items()}
