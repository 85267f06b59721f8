"""The extract stage: static vectors of every language, from one layer of the encoder.

A group of workers is started once and takes the languages in waves, as many at a time as there are workers. The
blocks of a wave's languages are dealt out to all workers, and each is written when it is done; then each
worker makes the vectors of one language from its blocks. What is written is not done again after an interruption.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from babelray.ahead import ahead
from babelray.config import Config
from babelray.errors import BabelrayError, DataError
from babelray.extraction.config import ExtractConfig
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks
from babelray.text.corpus import Block, blocks, read_block, read_vocabulary

if TYPE_CHECKING:
    from babelray.extraction.language import LanguageExtraction
    from babelray.extraction.occurrences import Batch
    from babelray.recipe import Recipe
    from babelray.training.launch import Worker
    from babelray.training.reading import OpenEncoder


class Settings(Config):
    languages: list[str]
    seed: int
    extract: ExtractConfig


class ExtractStage(Stage[Settings]):
    """Leaves `vectors/<language>/` (safetensors and a vocabulary), `layer-N/<language>/` and `statistics.json`."""

    name = "extract"
    needs = ("corpus", "encoder")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, seed=recipe.seed, extract=recipe.extract)

    def sources(self, settings: Settings) -> list[Place]:
        return [given_file(settings, code) for code in settings.languages] if settings.extract.path else []

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        from babelray.training.launch import run_workers

        config, work = job.settings.extract, job.out / "work"
        plan = Plan(job.settings, job.source("encoder") / "encoder", job.source("corpus"), job.out)
        if config.method == "given":
            run_tasks([Task(c, take_given, (plan, c)) for c in job.settings.languages], job.progress, "languages")
        else:
            run_workers(partial(extract, plan), config.workers, work, 3, job.progress, job.track, job.say)
        statistics = {code: plan.notes(code).read_json() for code in job.settings.languages}
        (job.out / "statistics.json").write_json(statistics)
        for remark in remarks(statistics):
            job.say(remark)
        for code, counts in statistics.items():
            job.track({f"vectors/{code}": counts["vectors"], f"words/{code}": counts["words"]}, 0)
        return {"languages": len(statistics), "vectors": sum(counts["vectors"] for counts in statistics.values())}


def given_file(settings: Settings, code: str) -> Place:
    return Place.parse((settings.extract.path or "").replace("{lang}", code))


def take_given(plan: Plan, code: str) -> None:
    """The vectors of a language's file."""
    from babelray.vectors.formats import read_vectors

    if not plan.notes(code).exists():
        vectors = read_vectors(given_file(plan.settings, code), plan.settings.extract.limit)
        vectors.save(plan.vectors(code))
        plan.notes(code).write_json({"vectors": len(vectors), "words": len(vectors)})


def remarks(statistics: dict[str, dict[str, Any]]) -> list[str]:
    """What a user should know about what was left out."""
    told = {
        "split sentences": "sentences were longer than the encoder allows, and split",
        "words cut in two": "occurrences of words were left out, since a split went through them",
        "words without known subwords": "occurrences of words were left out, since the tokenizer does not know them",
    }
    totals = Counter({name: sum(counts.get(name, 0) for counts in statistics.values()) for name in told})
    return [f"{totals[name]:,} {text}" for name, text in told.items() if totals[name]]


@dataclass(frozen=True)
class Plan:
    """What every worker needs to know."""

    settings: Settings
    encoder: Place
    corpus: Place
    out: Place

    def block(self, code: str, number: int) -> Place:
        return self.out / "work" / "blocks" / code / f"{number:06}.safetensors"

    def notes(self, code: str) -> Place:
        """What was counted in a language; written last, it marks the language done."""
        return self.out / "work" / "notes" / f"{code}.json"

    def vectors(self, code: str, layer: int | None = None) -> Place:
        return self.out / ("vectors" if layer is None else f"layer-{layer}") / code

    def language(self, code: str, encoder: OpenEncoder) -> LanguageExtraction:
        from babelray.extraction.language import LanguageExtraction

        settings = self.settings
        return LanguageExtraction(
            settings.extract, encoder.reader, encoder.tokenizer, self.words(code), encoder.layer, settings.seed
        )

    def words(self, code: str) -> dict[str, int]:
        """The words that are to have a vector, with their counts."""
        least = self.settings.extract.min_count
        words = {word: count for word, count in read_vocabulary(self.corpus, code).items() if count >= least}
        if not words:
            raise DataError(f"{code}: no word occurs {least} times", "Lower extract.min_count.")
        return words

    def blocks(self, code: str) -> list[Block]:
        """Blocks of the text; or of the vocabulary, if words are encoded alone."""
        config = self.settings.extract
        if config.method != "isolated":
            return blocks(self.corpus, code, config.block_sentences)
        words = len(self.words(code))
        starts = range(0, words, config.block_sentences)
        return [Block(self.corpus, 0, start, min(config.block_sentences, words - start)) for start in starts]


def extract(plan: Plan, worker: Worker) -> None:
    """What each worker does."""
    from babelray.training.reading import open_encoder

    config = plan.settings.extract
    with plan.encoder.local_input() as folder:
        encoder = open_encoder(str(folder), config.layer, config.also_layers, config.zero_stage, config.precision)
    found = {code: plan.blocks(code) for code in plan.settings.languages}
    waves = in_waves({code: sum(block.count for block in own) for code, own in found.items()}, worker.count)
    mine = [[(c, n) for c in wave for n in range(len(found[c]))][worker.rank :: worker.count] for wave in waves]
    total = sum(found[code][number].count for units in mine for code, number in units)
    share = Share(worker, total, "words" if config.method == "isolated" else "sentences")
    for wave, units in zip(waves, mine, strict=True):
        languages = {code: plan.language(code, encoder) for code in wave if not plan.notes(code).exists()}
        missing = [(c, n) for c, n in units if c in languages and not plan.block(c, n).exists()]
        share.add(sum(found[code][number].count for code, number in set(units) - set(missing)))
        prepared = (prepare(plan, languages[code], found[code][number]) for code, number in missing)
        for (code, number), (batches, counts) in zip(missing, ahead(prepared), strict=True):
            share.note = f"{code} {number + 1}/{len(found[code])}"
            block = found[code][number]
            write_block(plan, languages[code], code, number, block, batches, counts, share.show)
            share.add(block.count)
        encoder.wait_for_all()
        for code in wave[worker.rank :: worker.count]:
            if code in languages:
                share.note = f"{code}: vectors"
                write_vectors(plan, languages[code], code, len(found[code]), share.show)


@dataclass
class Share:
    """How much of one worker's share of the work is done."""

    worker: Worker
    total: int
    unit: str
    done: int = 0
    note: str = ""

    def add(self, count: int) -> None:
        self.done += count
        self.show()

    def show(self, more: int = 0) -> None:
        self.worker.progress(min(self.done + more, self.total), self.total, self.unit, self.note)


def in_waves(sizes: dict[str, int], workers: int) -> list[list[str]]:
    """Languages of similar size together, the largest first.

    >>> in_waves({"de": 5, "en": 9, "sw": 1}, 2)
    [['en', 'de'], ['sw']]
    """
    order = sorted(sizes, key=lambda code: (-sizes[code], code))
    return [order[start : start + workers] for start in range(0, len(order), workers)]


def prepare(plan: Plan, language: LanguageExtraction, block: Block) -> tuple[list[Batch], Counter[str]]:
    """What can be done for a block of sentences while the encoder is busy with another."""
    from babelray.extraction.language import sentences_of

    counts: Counter[str] = Counter()
    config = plan.settings.extract
    if config.method == "isolated":
        return [], counts
    paragraphs = config.method == "x2static" and config.x2static.context == "paragraph"
    return language.prepare(sentences_of(read_block(block), paragraphs), counts), counts


def write_block(
    plan: Plan,
    language: LanguageExtraction,
    code: str,
    number: int,
    block: Block,
    batches: list[Batch],
    counts: Counter[str],
    advance: Callable[[int], None],
) -> None:
    """What the method takes from a block, with what was counted on the way."""
    from safetensors.torch import save_file

    if plan.settings.extract.method == "isolated":
        tensors = language.alone(block.start, block.count, counts)
    else:
        tensors = language.block(number, batches, advance)
    with plan.block(code, number).writing() as path:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"counts": json.dumps(counts)})


def write_vectors(
    plan: Plan, language: LanguageExtraction, code: str, count: int, advance: Callable[[int], None]
) -> None:
    """The vectors of a language from its blocks, which are then deleted."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    statistics: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:  # on S3 each is fetched once, however often it is read
        paths = [stack.enter_context(plan.block(code, number).local_input()) for number in range(count)]
        for path in paths:
            with safe_open(path, "pt") as file:
                statistics.update(json.loads(file.metadata()["counts"]))
        try:
            for layer in language.reader.layers:
                vectors = language.combine(lambda: map(load_file, paths), layer, lambda occurrences: advance(0))
                if layer == language.layer:
                    vectors.save(plan.vectors(code))
                    statistics["vectors"] = len(vectors)
                if plan.settings.extract.also_layers:
                    vectors.save(plan.vectors(code, layer))
        except BabelrayError as error:
            raise type(error)(f"{code}: {error.problem}", error.remedy) from error
    plan.notes(code).write_json(statistics)
    (plan.out / "work" / "blocks" / code).delete()
