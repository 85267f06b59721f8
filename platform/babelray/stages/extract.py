"""The extract stage: static vectors of every language, from one layer of the encoder.

The artifact holds `vectors/<language>/` (safetensors and a vocabulary), `layer-N/<language>/` and `statistics.json`.

A group of workers is started once and processes the languages in waves, as many at a time as there are workers. The
blocks of a wave's languages are distributed over all workers, and each is written when it is encoded; then each worker
computes the vectors of one language from its blocks. What has been written is not computed again after an interruption.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from babelray.cluster.prefetch import prefetch
from babelray.cluster.tasks import Task, run_tasks
from babelray.config import Config
from babelray.errors import BabelrayError, DataError
from babelray.extraction.method import AnyExtractionMethod
from babelray.pipeline.stage import STAGES, Job, Stage
from babelray.pipeline.summary import Column, Summary, Table
from babelray.storage import Location
from babelray.text.corpus import Block, list_blocks, read_vocabulary

if TYPE_CHECKING:
    from babelray.errors import CollectedErrors
    from babelray.extraction.language import LanguageExtraction
    from babelray.extraction.method import EncoderMethod, PreparedBlock
    from babelray.pipeline.prospects import Prospects
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact
    from babelray.training.launch import Worker
    from babelray.training.sharded_encoder import OpenEncoder

Statistics = Mapping[str, Mapping[str, Any]]
"""Counts by language and name."""
REMARKS = {
    "split sentences": "sentences were longer than the encoder allows, and split",
    "words cut in two": "occurrences of words were left out, since a split went through them",
    "words without known subwords": "occurrences of words were left out, since the tokenizer does not know them",
}
"""Counts that the user is notified of."""


class Settings(Config):
    languages: list[str]
    seed: int
    extract: AnyExtractionMethod


@STAGES.register
class ExtractStage(Stage[Settings]):
    """Extract static word vectors of every language from the encoder."""

    name = "extract"
    needs = ("corpus", "encoder")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, seed=recipe.seed, extract=recipe.extract)

    def sources(self, settings: Settings) -> list[Location]:
        return settings.extract.sources(settings.languages)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        context = ExtractionContext(job.settings, job.source("encoder") / "encoder", job.source("corpus"), job.out)
        if "encoder" in job.settings.extract.needs:
            _run_workers(context, job)
        else:
            tasks = [Task(code, read_vectors, (context, code)) for code in job.settings.languages]
            run_tasks(tasks, job.progress, "languages")
        statistics = {code: context.statistics(code).read_json() for code in job.settings.languages}
        (job.out / "statistics.json").write_json(statistics)
        for remark in remarks(statistics):
            job.notify(remark)
        for code, counts in statistics.items():
            job.track({f"vectors/{code}": counts["vectors"], f"words/{code}": counts["words"]}, 0)
        return {"languages": len(statistics), "vectors": sum(counts["vectors"] for counts in statistics.values())}

    def reads(self, settings: Settings) -> Mapping[str, Collection[str]]:
        return {"corpus": ("text",)}

    def check(self, settings: Settings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.extraction.method import EncoderMethod

        method = settings.extract
        if isinstance(method, EncoderMethod):
            with errors.attempt():
                prospects.check_layer(method.layer, "extract.layer")
            for layer in method.also_layers if isinstance(method.also_layers, list) else ():
                with errors.attempt():
                    prospects.check_layer(layer, "extract.also_layers")

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        statistics = (artifact.location / "statistics.json").read_json()
        columns = [Column("language"), Column("words read", ",.0f"), Column("vectors", ",.0f")]
        rows = [(code, counts["words"], counts["vectors"]) for code, counts in statistics.items()]
        return Summary([Table("Static vectors", columns, rows, notes=remarks(statistics))])


def _run_workers(context: ExtractionContext, job: Job[Settings]) -> None:
    from babelray.training.launch import WorkerRun, run_workers

    run = WorkerRun(context.method.workers, job.out / "work", job.progress, job.track, job.notify)
    run_workers(partial(extract, context), run)


def remarks(statistics: Statistics) -> list[str]:
    """What was left out, in sentences for the user."""
    totals = {name: sum(counts.get(name, 0) for counts in statistics.values()) for name in REMARKS}
    return [f"{totals[name]:,} {text}" for name, text in REMARKS.items() if totals[name]]


@dataclass(frozen=True)
class ExtractionContext:
    """The settings and folders that every worker uses."""

    settings: Settings
    encoder: Location
    corpus: Location
    out: Location

    @property
    def method(self) -> EncoderMethod:
        """The method, if it needs an encoder."""
        return cast("EncoderMethod", self.settings.extract)

    def block(self, code: str, number: int) -> Location:
        return self.out / "work" / "blocks" / code / f"{number:06}.safetensors"

    def statistics(self, code: str) -> Location:
        """What was counted in a language; written last, it marks the language complete."""
        return self.out / "work" / "statistics" / f"{code}.json"

    def vectors(self, code: str, layer: int | None = None) -> Location:
        return self.out / ("vectors" if layer is None else f"layer-{layer}") / code

    def language(self, code: str, encoder: OpenEncoder) -> LanguageExtraction:
        from babelray.extraction.language import LanguageExtraction

        return LanguageExtraction(
            self.method, encoder.reader, encoder.tokenizer, self.words(code), encoder.layer, self.settings.seed
        )

    def words(self, code: str) -> dict[str, int]:
        """The words that get a vector, with their counts."""
        least = self.method.min_count
        words = {word: count for word, count in read_vocabulary(self.corpus, code).items() if count >= least}
        if not words:
            raise DataError(f"{code}: no word occurs {least} times", "Lower extract.min_count.")
        return words

    def blocks(self, code: str) -> list[Block]:
        """Blocks of the text; or of the vocabulary, if the method needs no text."""
        size = self.method.block_sentences
        if "text" in self.method.needs:
            return list_blocks(self.corpus, code, size)
        words = len(self.words(code))
        return [Block(self.corpus, 0, start, min(size, words - start)) for start in range(0, words, size)]


def read_vectors(context: ExtractionContext, code: str) -> None:
    """Write the vectors of a language for a method that needs no encoder."""
    if not context.statistics(code).exists():
        vectors = context.settings.extract.read(code)
        vectors.save(context.vectors(code))
        context.statistics(code).write_json({"vectors": len(vectors), "words": len(vectors)})


def extract(context: ExtractionContext, worker: Worker) -> None:
    """What each worker runs."""
    from babelray.training.sharded_encoder import open_encoder

    method = context.method
    with context.encoder.local_input() as folder:
        encoder = open_encoder(str(folder), method.layer, method.also_layers, method.zero_stage, method.precision)
    language_blocks = {code: context.blocks(code) for code in context.settings.languages}
    sizes = {code: sum(block.count for block in own) for code, own in language_blocks.items()}
    waves = [Wave.assign(codes, language_blocks, worker) for codes in in_waves(sizes, worker.count)]
    unit = "sentences" if "text" in method.needs else "words"
    progress = WorkerProgress(worker, sum(wave.size for wave in waves), unit)
    for wave in waves:
        languages = {code: context.language(code, encoder) for code in wave.codes if not _is_complete(context, code)}
        encode_blocks(context, languages, wave, progress)
        encoder.wait_for_all()
        for code in wave.codes[worker.rank :: worker.count]:
            if code in languages:
                progress.note = f"{code}: vectors"
                write_vectors(context, languages[code], code, len(language_blocks[code]), progress.show)


def _is_complete(context: ExtractionContext, code: str) -> bool:
    return context.statistics(code).exists()


@dataclass
class Wave:
    """Languages that are processed at the same time, and the blocks of them that one worker encodes."""

    codes: list[str]
    blocks: Mapping[str, Sequence[Block]]
    assigned: list[tuple[str, int]]
    """Languages and numbers of the worker's blocks."""

    @classmethod
    def assign(cls, codes: list[str], blocks: Mapping[str, Sequence[Block]], worker: Worker) -> Wave:
        """The part of one worker: every block in turn goes to the next worker."""
        units = [(code, number) for code in codes for number in range(len(blocks[code]))]
        return cls(codes, blocks, units[worker.rank :: worker.count])

    @property
    def size(self) -> int:
        """The sentences, or words, that the worker encodes."""
        return sum(self.blocks[code][number].count for code, number in self.assigned)


@dataclass
class WorkerProgress:
    """The progress of one worker's part of the work."""

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


def in_waves(sizes: Mapping[str, int], workers: int) -> list[list[str]]:
    """Languages of similar size together, the largest first.

    >>> in_waves({"de": 5, "en": 9, "sw": 1}, 2)
    [['en', 'de'], ['sw']]
    """
    order = sorted(sizes, key=lambda code: (-sizes[code], code))
    return [order[start : start + workers] for start in range(0, len(order), workers)]


def encode_blocks(
    context: ExtractionContext, languages: Mapping[str, LanguageExtraction], wave: Wave, progress: WorkerProgress
) -> None:
    """Encode and write the worker's blocks of a wave, but for those that exist; the next is prepared meanwhile."""
    missing = [(c, n) for c, n in wave.assigned if c in languages and not context.block(c, n).exists()]
    progress.add(sum(wave.blocks[code][number].count for code, number in set(wave.assigned) - set(missing)))
    prepared = (languages[code].prepare(number, wave.blocks[code][number]) for code, number in missing)
    for (code, number), block in zip(missing, prefetch(prepared), strict=True):
        progress.note = f"{code} {number + 1}/{len(wave.blocks[code])}"
        write_block(context.block(code, number), languages[code], block, progress.show)
        progress.add(block.count)


def write_block(
    location: Location, language: LanguageExtraction, block: PreparedBlock, on_progress: Callable[[int], None]
) -> None:
    """Write what the method keeps of a block, with what was counted on the way."""
    from safetensors.torch import save_file

    tensors = language.encode(block, on_progress)
    metadata = {"counts": json.dumps(block.counts)}
    with location.writing() as path:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata)


def write_vectors(
    context: ExtractionContext, language: LanguageExtraction, code: str, count: int, on_progress: Callable[[int], None]
) -> None:
    """Write the vectors of a language from its blocks, which are then deleted."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    statistics: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:  # on S3 each is fetched once, however often it is read
        paths = [stack.enter_context(context.block(code, number).local_input()) for number in range(count)]
        for path in paths:
            with safe_open(path, "pt") as file:
                statistics.update(json.loads(file.metadata()["counts"]))
        try:
            for layer in language.reader.layers:
                vectors = language.combine(lambda: map(load_file, paths), layer, lambda occurrences: on_progress(0))
                if layer == language.layer:
                    vectors.save(context.vectors(code))
                    statistics["vectors"] = len(vectors)
                if context.method.also_layers:
                    vectors.save(context.vectors(code, layer))
        except BabelrayError as error:
            raise type(error)(f"{code}: {error.problem}", error.remedy) from error
    context.statistics(code).write_json(statistics)
    (context.out / "work" / "blocks" / code).delete()
