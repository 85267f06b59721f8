"""The map stage: the languages of an encoder are mapped to the hub by their words in context, by several methods.

Words that translate each other are linked in parallel text; every method is fitted on their vectors at one layer, each
language with the hub by itself. The original encoder and every mapped one are then scored on the recipe's benchmarks,
as in Table 1 of Zhao and Eger ("Constrained Density Matching and Modeling"). Every step is stored: a resumed run
repeats none.

Shapes: N word pairs, D width.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from babelray.cluster.devices import assigned_device
from babelray.cluster.tasks import Task, run_tasks
from babelray.errors import DataError, RecipeError, TrainingError
from babelray.evaluation.benchmark import AnyBenchmark, Benchmark, System
from babelray.mapping.method import MappingMethod
from babelray.pipeline.stage import STAGES, Job, LanguageSettings, Stage
from babelray.pipeline.summary import Cell, Column, Summary, Table
from babelray.recipe.map import ORIGINAL, MapConfig
from babelray.stages.evaluate import available, benchmark_files, score_systems
from babelray.storage import Location
from babelray.storage.results import predictions_file, read_results, write_index

if TYPE_CHECKING:
    from babelray.errors import CollectedErrors
    from babelray.evaluation.contextual_bli import Tokenised
    from babelray.pipeline.prospects import Prospects
    from babelray.recipe.recipe import Recipe
    from babelray.storage.artifact import Artifact
    from babelray.storage.results import BenchmarkResults


class Settings(LanguageSettings):
    map: MapConfig
    benchmarks: list[AnyBenchmark]


@STAGES.register
class MapStage(Stage[Settings]):
    """Map the languages of the encoder by their words in context, and score every method.

    Writes `METHOD/` for each method, which `MappedEncoder` opens, and the `encoder/` that they share; results and
    predictions like the evaluate stage, with `original` and each method as a system; and `mapping.json`, which groups
    the systems and lists those that are tied with the best.
    """

    name = "map"
    needs = ("corpus", "encoder")

    def wanted(self, recipe: Recipe) -> bool:
        return recipe.map is not None

    def settings(self, recipe: Recipe) -> Settings:
        if recipe.map is None:
            raise RecipeError("the recipe does not say how to map", "Give it a key `map` with `methods`.")
        return Settings(
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            map=recipe.map,
            benchmarks=[benchmark for benchmark in recipe.evaluate.completed() if not benchmark.held_out],
        )

    def sources(self, settings: Settings) -> list[Location]:
        return benchmark_files(_usable(settings), settings.languages)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        from babelray.models.mapped import copy_encoder

        settings, encoder = job.settings, job.source("encoder") / "encoder"
        if not settings.others:
            raise DataError("there is only one language: nothing can be mapped", "List at least two languages.")
        layer = _layer(encoder, settings.map.layer)
        segmenters = job.inputs["corpus"].manifest["settings"]["segmenters"]
        context = MappingContext(settings, job.source("corpus"), encoder, layer, segmenters, job.out)
        collections = [Task(code, collect, (context, code), encodes=True) for code in settings.others]
        sizes = run_tasks(collections, job.progress, "languages")
        seconds = self._fit_all(job, context, sizes)
        copy_encoder(encoder, job.out)
        results = self._score_all(job, list(seconds), layer)
        self._describe(job, list(seconds), results)
        return {
            "pairs": {code: count for code, (count, _) in sizes.items()},
            **{
                f"{label}/{name}": mean
                for label, result in results.items()
                for name in result.scores
                if (mean := result.mean(name)) is not None
            },
            **{f"seconds/{label}": value for label, value in seconds.items()},
        }

    def _fit_all(
        self, job: Job[Settings], context: MappingContext, sizes: Mapping[str, tuple[int, int]]
    ) -> dict[str, float]:
        """Fit every method for every language; the seconds that each took, without methods that failed."""
        from babelray.models.mapped import describe

        methods, others = job.settings.map.methods, job.settings.others
        fits = run_tasks(
            [
                Task(f"{method.label}, {code}", fit, (context, method, code), _memory(method, *sizes[code]))
                for method in methods
                for code in others
            ],
            job.progress,
            "mappings",
            cpus=1,
        )
        seconds: dict[str, float] = {}
        for method in methods:
            outcomes = {code: fits[f"{method.label}, {code}"] for code in others}
            failures = [f"{code}: {outcome['failed']}" for code, outcome in outcomes.items() if "failed" in outcome]
            if failures:
                job.notify(f"left out: {method.label}, since it failed. {failures[0]}")
                (job.out / method.label).delete()
            else:
                describe(job.out / method.label, context.layer, job.settings.hub)
                seconds[method.label] = sum(outcome["seconds"] for outcome in outcomes.values())
        return seconds

    def _score_all(self, job: Job[Settings], fitted: list[str], layer: int) -> dict[str, BenchmarkResults]:
        """The results of the original encoder and of every mapped one on the benchmarks that can be used."""
        benchmarks = [_at_layer(benchmark, layer) for benchmark in available(_usable(job.settings, job.notify), job)]
        system = System("", None, job.source("corpus"), job.settings.languages, job.settings.hub)
        folders = {ORIGINAL: "encoder", **{label: label for label in fitted}}
        systems = {name: replace(system, encoder=str(job.out / folder)) for name, folder in folders.items()}
        return score_systems(benchmarks, systems, job)

    def _describe(self, job: Job[Settings], fitted: list[str], results: dict[str, BenchmarkResults]) -> None:
        """Write the index of results and `mapping.json`."""
        supervised = {method.label for method in job.settings.map.methods if not method.unsupervised}
        systems = {
            "": [ORIGINAL],
            "supervised": [label for label in fitted if label in supervised],
            "unsupervised": [label for label in fitted if label not in supervised],
        }
        tied = {label: _tied(result, job.out) for label, result in results.items()}
        (job.out / "mapping.json").write_json({"systems": systems, "tied": tied})
        write_index(job.out, results)

    def check(self, settings: Settings, prospects: Prospects, errors: CollectedErrors) -> None:
        from babelray.pipeline.prospects import check_several

        prospects.check_benchmarks(settings.benchmarks, errors)
        check_several(settings.languages, "mapped")
        prospects.check_layer(min(settings.map.layer, 0), "map.layer")  # a number that is too large means the last

    def summary(self, artifact: Artifact, settings: Settings) -> Summary:
        description = (artifact.location / "mapping.json").read_json()
        results = read_results(artifact.location)
        rows: list[list[Cell]] = []
        for kind, systems in description["systems"].items():
            for system in systems:
                means = {label: result.mean(system) or 0.0 for label, result in results.items()}
                marks = {label: " ●" if system in description["tied"][label] else "" for label in results}
                rows.append([system, kind, *(f"{100 * means[label]:.2f}{marks[label]}" for label in results)])
        titles = [f"{label}: {result.main_metric.replace('_', ' ')}" for label, result in results.items()]
        columns = [Column(title) for title in ("", "learned", *titles)]
        notes = ["● not significantly worse than the best"] if any(description["tied"].values()) else []
        return Summary([Table("words in context, mapped; all figures × 100", columns, rows, notes=notes)])


def _usable(settings: Settings, notify: Callable[[str], None] = lambda message: None) -> list[Benchmark]:
    """The benchmarks that read vectors of the encoder and do not train it; the user is notified of the others."""
    usable = []
    for benchmark in settings.benchmarks:
        if benchmark.trains:
            notify(f"left out: {benchmark.label}, since it trains the encoder")
        elif "vectors" in benchmark.needs:
            notify(f"left out: {benchmark.label}, since it needs static vectors")
        else:
            usable.append(benchmark)
    return usable


def _at_layer(benchmark: Benchmark, layer: int) -> Benchmark:
    """The benchmark, reading the mapped layer of the original encoder too."""
    return benchmark.model_copy(update={"layer": layer} if "layer" in type(benchmark).model_fields else {})


def _tied(result: BenchmarkResults, out: Location) -> list[str]:
    """The systems that are not significantly worse than the best; none if the benchmark scores no single examples."""
    from babelray.metrics.example_scores import example_scores_of
    from babelray.metrics.significance import leaderboard, over_rows

    languages = list(result.scores[ORIGINAL])
    predictions = {system: predictions_file(out, result.label, system).read_json() for system in result.scores}
    examples = {system: example_scores_of(answers, languages) for system, answers in predictions.items()}
    if not all(examples.values()):
        return []
    same_rows = len({len(scores) for scores in examples[ORIGINAL].values()}) == 1
    board = leaderboard({system: over_rows(rows) if same_rows else rows for system, rows in examples.items()})
    return [row.system for row in board.rows if row.tied]


def _layer(encoder: Location, layer: int) -> int:
    """The layer as a number from 0; the last one if the encoder has fewer."""
    from transformers import AutoConfig

    from babelray.encoder.load import resolve_layer

    with (encoder / "config.json").local_input() as file:
        count = AutoConfig.from_pretrained(file, trust_remote_code=False).num_hidden_layers
    return min(layer, count) if layer >= 0 else resolve_layer(layer, count)


def _memory(method: MappingMethod, count: int, width: int) -> int:
    """Bytes that a fit takes: vectors of both sides several times, and a matrix of similarities."""
    cells = min(method.compared_words, count) ** 2
    return 40 * count * width + 5 * cells + (3 << 28)  # Python and torch, and the buffers of retrieval


@dataclass(frozen=True)
class MappingContext:
    """The inputs and settings of every task."""

    settings: Settings
    corpus: Location
    encoder: Location
    layer: int
    segmenters: dict[str, str]
    out: Location

    def occurrences(self, code: str) -> Location:
        return self.out / "work" / f"{code}.safetensors"

    def parallel(self, code: str) -> tuple[list[Tokenised], list[Tokenised]]:
        """Training sentences of a language and their translations into the hub."""
        from babelray.evaluation.contextual_bli import spread, tokenised
        from babelray.lexicon.pairs import read_pairs
        from babelray.text.segment import Segmenter

        hub = self.settings.hub
        pairs = spread(read_pairs(self.corpus / "parallel" / f"{code}-{hub}", "train"), self.settings.map.sentences)
        if not pairs:
            raise DataError(f"there is no parallel text of {code} to learn from", "Name it under `corpus.parallel`.")
        sources = tokenised((pair.source for pair in pairs), Segmenter.for_language(code, self.segmenters[code]))
        return sources, tokenised((pair.target for pair in pairs), Segmenter.for_language(hub, self.segmenters[hub]))


def collect(context: MappingContext, code: str) -> tuple[int, int]:
    """Write the vectors (N, D) of words in context and of their translations; returns N and D."""
    from safetensors.torch import load_file, save_file

    from babelray.encoder.text_encoder import TextEncoder
    from babelray.evaluation.contextual_bli import linked_occurrences, occurrence_vectors
    from babelray.lexicon.statistical_alignment import align_words

    config, location = context.settings.map, context.occurrences(code)
    if location.exists():
        with location.local_input() as file:
            count, width = load_file(file)["own"].shape
        return count, width
    sources, targets = context.parallel(code)
    own, hub = ([sentence.tokens for sentence in side] for side in (sources, targets))
    limits = (config.min_count, config.occurrences_per_word, config.pairs)
    links = linked_occurrences(own, hub, align_words(own, hub), *limits)
    with context.encoder.local_input() as folder:
        encoder = TextEncoder.from_pretrained(str(folder), context.layer, config.batch_tokens, assigned_device())
        x_ND, x_read_N = occurrence_vectors(encoder, sources, [(link.pair, link.source) for link in links])
        z_ND, z_read_N = occurrence_vectors(encoder, targets, [(link.pair, link.target) for link in links])
    read_N = x_read_N & z_read_N
    if int(read_N.sum()) < 2:
        problem = f"{code}: in {len(sources):,} sentence pairs no two words are linked {config.min_count} times"
        raise DataError(problem, "Give more parallel text, or a smaller map.min_count.")
    with location.writing() as file:
        save_file({"own": x_ND[read_N], "hub": z_ND[read_N]}, file)
    return int(read_N.sum()), x_ND.shape[1]


def fit(context: MappingContext, method: MappingMethod, code: str) -> dict[str, Any]:
    """Fit a method for one language and write both sides' mappings; divergence is reported, not raised."""
    import torch
    from safetensors.torch import load_file

    from babelray.mapping.method import fit_mappings
    from babelray.models.mapped import Sides

    stored = context.out / "work" / "fits" / f"{method.label}-{code}.json"
    if stored.exists():
        return stored.read_json()
    with context.occurrences(code).local_input() as file:
        vectors = load_file(file)
    own_ND, hub_ND = vectors["own"], vectors["hub"]
    rows_N = torch.arange(len(own_ND))
    pairs = None if method.unsupervised else (rows_N, rows_N)
    if method.unsupervised:
        hub_ND = hub_ND[torch.randperm(len(hub_ND), generator=torch.Generator().manual_seed(context.settings.seed))]
    start = time.monotonic()
    try:
        own, hub = fit_mappings(own_ND, hub_ND, pairs, method, context.settings.seed)
    except TrainingError as error:
        outcome: dict[str, Any] = {"failed": str(error)}
    else:
        unchanged = torch.equal(hub.transform(hub_ND), hub_ND)
        Sides(own, None if unchanged else hub).save(context.out / method.label / "mappings" / code)
        outcome = {"seconds": round(time.monotonic() - start, 1)}
    stored.write_json(outcome)
    return outcome
