"""The corpus stage: text of every language as clean sentences, vocabularies, and translations with the hub.

The artifact holds `sentences/`, `vocabulary/`, `parallel/`, `dictionary/` (parquet) and `statistics.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from babelray.cluster.tasks import Task, run_tasks
from babelray.lexicon.pairs import dictionary_pairs, parallel_pairs, read_pairs, write_pairs
from babelray.lexicon.read import Problems, translation_files
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Cell, Column, Summary, Table
from babelray.recipe.corpus import CorpusConfig
from babelray.storage import Location
from babelray.text.build import CorpusLayout, build_corpus
from babelray.text.read import source_files
from babelray.text.segment import resolve_segmenters

if TYPE_CHECKING:
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact

COUNTS = ("read", "kept", "tokens", "types")
"""Counts of each language that are always shown; besides, there are those of dropped sentences, by reason."""


class Settings(LanguageSettings):
    segmenters: dict[str, str]
    """The segmenter of each language: resolved here, so that it is part of the fingerprint."""
    remarks: list[str]
    corpus: CorpusConfig


@STAGES.register
class CorpusStage(Stage[Settings]):
    """Clean text into sentences and words, count vocabularies, pair translations."""

    name = "corpus"

    def settings(self, recipe: Recipe) -> Settings:
        config = recipe.corpus
        languages = recipe.resolved_languages()
        segmenters, remarks = resolve_segmenters(languages, config.segmenters, config.missing_segmenter)
        return Settings(
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            segmenters=segmenters,
            remarks=remarks,
            corpus=config,
        )

    def sources(self, settings: Settings) -> list[Location]:
        config = settings.corpus
        texts = {file for source in config.text for code in settings.languages for file in source_files(source, code)}
        translations = {
            file
            for source in (*config.parallel, *config.dictionary)
            for code in settings.others
            for file in translation_files(source, code, settings.hub)
        }
        return sorted(texts | translations)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        for remark in settings.remarks:
            job.notify(remark)
        pairs = _pair_translations(job)
        layout = CorpusLayout(settings.corpus, settings.segmenters, settings.seed, job.out)
        statistics = build_corpus(layout, _held_out_sentences(job), job.progress)
        (job.out / "statistics.json").write_json({"text": statistics, "pairs": pairs})
        total: Counter[str] = Counter()
        for code, counts in statistics.items():
            if counts.get("damaged files"):
                job.notify(f"{code}: {counts['damaged files']} damaged file(s), read as far as possible")
            total.update(counts)
            job.track({f"{name}/{code}": counts.get(name, 0) for name in COUNTS}, 0)
        return {"languages": len(statistics), **total}

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        statistics = (artifact.location / "statistics.json").read_json()["text"]
        return Summary([statistics_table(statistics, settings.segmenters)])


def statistics_table(statistics: Mapping[str, Mapping[str, int]], segmenters: Mapping[str, str]) -> Table:
    """The sentences of each language that were read, kept and dropped by reason; its tokens and types."""
    reasons = sorted({name for counts in statistics.values() for name in counts} - {*COUNTS})
    names = [*COUNTS, *reasons]
    columns = [Column("language"), Column("segmenter")]
    columns += [Column(name.removeprefix("dropped: "), ",.0f") for name in names]
    rows: list[list[Cell]] = [
        [code, segmenters[code], *(counts.get(name, 0) for name in names)] for code, counts in statistics.items()
    ]
    return Table("Sentences", columns, rows)


def _pair_translations(job: Job[Settings]) -> dict[str, Any]:
    """Write the translations of every language with the hub, in parallel on the cluster; return what was counted."""
    settings = job.settings
    if not settings.others or not (settings.corpus.parallel or settings.corpus.dictionary):
        return {}
    tasks = [
        Task(code, _write_translations, (code, settings.hub, settings.corpus, job.out)) for code in settings.others
    ]
    outcomes = run_tasks(tasks, job.progress, "pairs of languages")
    for code, outcome in outcomes.items():
        if outcome["bad lines"]:
            job.notify(f"{code}: {outcome['bad lines']} bad lines in translations, the first of them:")
            for line in outcome["first bad lines"]:
                job.notify(f"  {line}")
    return outcomes


def _write_translations(code: str, hub: str, config: CorpusConfig, out: Location) -> dict[str, Any]:
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


def _held_out_sentences(job: Job[Settings]) -> dict[str, frozenset[str]]:
    """The sentences of each language that evaluation uses."""
    hub = job.settings.hub
    held_out: dict[str, set[str]] = {code: set() for code in job.settings.languages}
    for code in job.settings.others:
        for pair in read_pairs(job.out / "parallel" / f"{code}-{hub}", "test"):
            held_out[code].add(pair.source)
            held_out[hub].add(pair.target)
    return {code: frozenset(sentences) for code, sentences in held_out.items()}
