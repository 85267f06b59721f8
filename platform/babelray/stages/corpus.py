"""The corpus stage: text of every language as clean sentences, vocabularies, and translations with the hub.

The artifact holds `sentences/`, `vocabulary/`, `parallel/`, `dictionary/` (parquet) and `statistics.json`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from babelray.cluster.tasks import Task, run_tasks
from babelray.errors import ArtifactError
from babelray.lexicon.coverage import measure_coverage
from babelray.lexicon.pairs import dictionary_pairs, parallel_pairs, read_pairs, write_pairs
from babelray.lexicon.read import Problems, translation_files
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Part, Stage
from babelray.pipeline.summary import Cell, Column, Summary, Table
from babelray.recipe.corpus import CorpusConfig
from babelray.storage import Location
from babelray.storage.runs import stored_artifacts
from babelray.text.build import CorpusLayout, CorpusStatistics, build_corpus
from babelray.text.config import TextConfig
from babelray.text.corpus import read_vocabulary
from babelray.text.read import source_files
from babelray.text.segment import resolve_segmenters
from babelray.text.tally import loss_remarks

if TYPE_CHECKING:
    from babelray.errors import CollectedErrors
    from babelray.lexicon.config import DictionaryConfig, TranslationSource
    from babelray.pipeline.prospects import Prospects
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
        translations = _files((*settings.corpus.parallel, *settings.corpus.dictionary), settings)
        return sorted({*_text_files(settings), *translations})

    def parts(self, settings: Settings) -> Mapping[str, Part]:
        """Text, parallel text and dictionaries. Text leaves out the parallel sentences that are held out."""
        config, identity, several = settings.corpus, settings.corpus.identity(), settings.languages
        pairs = {"languages": several, "hub": settings.hub}
        of_text = {name: identity[name] for name in TextConfig.model_fields}
        of_text |= {"languages": several, "seed": settings.seed, "segmenters": settings.segmenters}
        return {
            "parallel": Part(pairs | {"parallel": identity["parallel"]}, _files(config.parallel, settings)),
            "dictionary": Part(pairs | {"dictionary": identity["dictionary"]}, _files(config.dictionary, settings)),
            "text": Part(of_text, _text_files(settings), needs=("parallel",)),
        }

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings = job.settings
        for remark in settings.remarks:
            job.notify(remark)
        problems = Problems()
        sentences = _pair(job, write_sentences, bool(settings.corpus.parallel), problems)
        text = _earlier_text(job)
        if text is None:
            layout = CorpusLayout(settings.corpus, settings.segmenters, settings.seed, job.out)
            text = build_corpus(layout, _held_out_sentences(job), job.progress)
        statistics, examples = text
        words = _pair(job, write_words, bool(settings.corpus.dictionary), problems)
        pairs = {code: sentences.get(code, {}) | words.get(code, {}) for code in settings.others}
        remarks = [
            *loss_remarks(statistics, examples),
            *problems.summaries,
            *_pair_remarks(pairs, settings.corpus),
        ]
        for remark in remarks:
            job.notify(f"warning: {remark}")
        (job.out / "statistics.json").write_json(
            {"text": statistics, "examples": examples, "pairs": pairs, "remarks": remarks}
        )
        total: Counter[str] = Counter()
        for code, counts in statistics.items():
            if counts.get("damaged files"):
                job.notify(f"{code}: {counts['damaged files']} damaged file(s), read as far as possible")
            total.update(counts)
            job.track({f"{name}/{code}": counts.get(name, 0) for name in COUNTS}, 0)
        return {"languages": len(statistics), **total}

    def check(self, settings: Settings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.pipeline.samples import check_corpus_files

        check_corpus_files(settings.corpus, settings.languages, settings.hub, errors)

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        statistics = (artifact.location / "statistics.json").read_json()
        tables = [statistics_table(statistics["text"], settings.segmenters, statistics.get("remarks", []))]
        pairs = {code: own["dictionary"] for code, own in statistics["pairs"].items() if "dictionary" in own}
        return Summary([*tables, dictionary_table(pairs)] if pairs else tables)


def _text_files(settings: Settings) -> list[Location]:
    files = {
        file for source in settings.corpus.text for code in settings.languages for file in source_files(source, code)
    }
    return sorted(files)


def _files(sources: Sequence[TranslationSource], settings: Settings) -> list[Location]:
    """The files of translations of all languages."""
    files = {
        file for source in sources for code in settings.others for file in translation_files(source, code, settings.hub)
    }
    return sorted(files)


def _earlier_text(job: Job[Settings]) -> CorpusStatistics | None:
    """Copy the text of an earlier corpus that differs in its dictionaries only; None if there is none."""
    stage = job.out.parent
    for artifact in stored_artifacts(stage.parent, stage.name):
        if "text" in job.parts and artifact.manifest.get("parts", {}).get("text") == job.parts["text"]:
            with contextlib.suppress(ArtifactError):
                return _copy_text(artifact.checked(), job)
    return None


def _copy_text(artifact: Artifact, job: Job[Settings]) -> CorpusStatistics:
    """Copy sentences and vocabularies; return their statistics."""
    names = [name for name in artifact.manifest["files"] if name.startswith(("sentences/", "vocabulary/"))]
    for done, name in enumerate(names, start=1):
        (artifact.location / name).copy_to(job.out / name)
        job.progress.update(done, len(names), "files", "copied")
    job.notify(f"the text is that of {artifact.location}: only translations changed")
    statistics = (artifact.location / "statistics.json").read_json()
    return CorpusStatistics(statistics["text"], statistics["examples"])


def statistics_table(
    statistics: Mapping[str, Mapping[str, int]], segmenters: Mapping[str, str], remarks: Sequence[str] = ()
) -> Table:
    """The sentences of each language that were read, kept and dropped by reason; its tokens and types."""
    reasons = sorted({name for counts in statistics.values() for name in counts} - {*COUNTS})
    names = [*COUNTS, *reasons]
    columns = [Column("language"), Column("segmenter")]
    columns += [Column(name.removeprefix("dropped: "), ",.0f") for name in names]
    rows: list[list[Cell]] = [
        [code, segmenters[code], *(counts.get(name, 0) for name in names)] for code, counts in statistics.items()
    ]
    return Table("Sentences", columns, rows, notes=remarks)


def dictionary_table(counts: Mapping[str, Mapping[str, int]]) -> Table:
    """The entries of each language's dictionary, and how many have both words in the vocabularies of the text."""
    columns = [Column("language"), *(Column(name, ",.0f") for name in ("train", "test")), Column("in the text %", "%")]
    rows: list[list[Cell]] = [
        [code, own.get("train", 0), own.get("test", 0), own["usable"] / own["entries"] if own["entries"] else None]
        for code, own in counts.items()
    ]
    return Table("Dictionary", columns, rows)


def _pair(
    job: Job[Settings], write: Callable[..., dict[str, Any]], wanted: bool, problems: Problems
) -> dict[str, dict[str, Any]]:
    """Write translations of every language with the hub, in parallel on the cluster; return what was counted."""
    settings = job.settings
    if not wanted or not settings.others:
        return {}
    tasks = [Task(code, write, (code, settings.hub, settings.corpus, job.out)) for code in settings.others]
    outcomes = run_tasks(tasks, job.progress, "pairs of languages")
    for outcome in outcomes.values():
        problems.merge(outcome["problems"])
    return {code: outcome["counts"] for code, outcome in outcomes.items()}


def write_sentences(code: str, hub: str, config: CorpusConfig, out: Location) -> dict[str, Any]:
    """Write the sentence pairs of a language with the hub; return their counts, and unusable lines."""
    problems = Problems()
    pairs, counts = parallel_pairs(config.parallel, code, hub, problems)
    write_pairs(out / "parallel" / f"{code}-{hub}", pairs)
    return {"counts": {"parallel": dict(counts)}, "problems": problems}


def write_words(code: str, hub: str, config: CorpusConfig, out: Location) -> dict[str, Any]:
    """Write the word pairs of a language with the hub; return their counts, and unusable lines.

    A dictionary whose columns are exchanged is an error: the vocabularies of the text show it.
    """
    problems = Problems()
    source, target = (read_vocabulary(out, language) for language in (code, hub))
    covered: Counter[str] = Counter(entries=0, usable=0)

    def check(config: DictionaryConfig, words: Sequence[tuple[str, str]]) -> None:
        coverage = measure_coverage(words, source, target, config.lowercase)
        coverage.check_order(" and ".join(map(str, translation_files(config, code, hub))))
        covered.update(entries=coverage.entries, usable=coverage.usable)

    pairs, counts = dictionary_pairs(config.dictionary, code, hub, problems, check)
    write_pairs(out / "dictionary" / f"{code}-{hub}", pairs)
    return {"counts": {"dictionary": {**counts, **covered}}, "problems": problems}


def _pair_remarks(pairs: Mapping[str, Mapping[str, Mapping[str, int]]], config: CorpusConfig) -> list[str]:
    """Languages without any translations, though the recipe has a source of them."""
    remarks = []
    for kind, sources in (("dictionary", config.dictionary), ("parallel", config.parallel)):
        missing = [code for code, own in pairs.items() if not any(own.get(kind, {}).get(s) for s in ("train", "test"))]
        if sources and missing:
            remarks.append(f"no entries under corpus.{kind}: {', '.join(missing)}")
    return remarks


def _held_out_sentences(job: Job[Settings]) -> dict[str, frozenset[str]]:
    """The sentences of each language that evaluation uses."""
    hub = job.settings.hub
    held_out: dict[str, set[str]] = {code: set() for code in job.settings.languages}
    for code in job.settings.others:
        for pair in read_pairs(job.out / "parallel" / f"{code}-{hub}", "test"):
            held_out[code].add(pair.source)
            held_out[hub].add(pair.target)
    return {code: frozenset(sentences) for code, sentences in held_out.items()}
