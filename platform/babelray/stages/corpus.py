"""The corpus stage: text of every language into clean sentences, vocabularies, and pairs with the hub."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.lexicon.pairs import dictionary_pairs, parallel_pairs, read_pairs, write_pairs
from babelray.lexicon.read import Problems, files_of
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks
from babelray.text.build import Plan, build_corpus
from babelray.text.config import CorpusConfig
from babelray.text.read import source_files
from babelray.text.segment import resolve_segmenters

if TYPE_CHECKING:
    from babelray.recipe import Recipe


class Settings(Config):
    hub: str
    seed: int
    segmenters: dict[str, str]
    """The languages, each with what cuts its text: resolved here, so that it is part of the fingerprint."""
    remarks: list[str]
    corpus: CorpusConfig


class CorpusStage(Stage[Settings]):
    """Leaves `sentences/`, `vocabulary/`, `parallel/`, `dictionary/` (parquet) and `statistics.json`."""

    name = "corpus"

    def settings(self, recipe: Recipe) -> Settings:
        config = recipe.corpus
        found, remarks = resolve_segmenters(recipe.resolved_languages(), config.segmenters, config.missing_segmenter)
        return Settings(hub=recipe.hub, seed=recipe.seed, segmenters=found, remarks=remarks, corpus=config)

    def sources(self, settings: Settings) -> list[Place]:
        config, codes = settings.corpus, settings.segmenters
        texts = {file for source in config.text for code in codes for file in source_files(source, code)}
        others = [code for code in codes if code != settings.hub]
        translations = {
            file
            for source in (*config.parallel, *config.dictionary)
            for code in others
            for file in files_of(source, code, settings.hub)
        }
        return sorted(texts | translations)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        for remark in settings.remarks:
            job.say(remark)
        pairs = self._pair(job)
        plan = Plan(settings.corpus, settings.segmenters, settings.seed, job.out)
        statistics = build_corpus(plan, self._held_out(job), job.progress)
        (job.out / "statistics.json").write_json({"text": statistics, "pairs": pairs})
        for code, counts in statistics.items():
            if counts.get("damaged files"):
                job.say(f"{code}: {counts['damaged files']} damaged file(s), read as far as possible")
        total: Counter[str] = Counter()
        for code, counts in statistics.items():
            total.update(counts)
            job.track({f"{name}/{code}": counts.get(name, 0) for name in ("read", "kept", "tokens", "types")}, 0)
        return {"languages": len(statistics), **total}

    def _pair(self, job: Job[Settings]) -> dict[str, Any]:
        """Translations of every language with the hub, side by side on the cluster."""
        settings = job.settings
        others = [code for code in settings.segmenters if code != settings.hub]
        if not others or not (settings.corpus.parallel or settings.corpus.dictionary):
            return {}
        tasks = [Task(code, _write_translations, (code, settings.hub, settings.corpus, job.out)) for code in others]
        outcomes = run_tasks(tasks, job.progress, "pairs of languages")
        for code, outcome in outcomes.items():
            if outcome["bad lines"]:
                job.say(f"{code}: {outcome['bad lines']} bad lines in translations, the first of them:")
                for line in outcome["first bad lines"]:
                    job.say(f"  {line}")
        return outcomes

    def _held_out(self, job: Job[Settings]) -> dict[str, frozenset[str]]:
        """The sentences of each language that are tested."""
        hub = job.settings.hub
        tested: dict[str, set[str]] = {code: set() for code in job.settings.segmenters}
        for code in tested:
            for pair in read_pairs(job.out / "parallel" / f"{code}-{hub}", "test") if code != hub else []:
                tested[code].add(pair.source)
                tested[hub].add(pair.target)
        return {code: frozenset(sentences) for code, sentences in tested.items()}


def _write_translations(code: str, hub: str, config: CorpusConfig, out: Place) -> dict[str, Any]:
    problems = Problems()
    outcome: dict[str, Any] = {}
    if config.parallel:
        pairs, counts = parallel_pairs(config.parallel, code, hub, problems)
        write_pairs(out / "parallel" / f"{code}-{hub}", pairs)
        outcome["parallel"] = dict(counts)
    if config.dictionary:
        pairs, counts = dictionary_pairs(config.dictionary, code, hub, problems)
        write_pairs(out / "dictionary" / f"{code}-{hub}", pairs)
        outcome["dictionary"] = dict(counts)
    return outcome | {"bad lines": problems.count, "first bad lines": problems.first}
