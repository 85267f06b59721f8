"""The map stage: the languages of an encoder are mapped to the hub by their words in context, in several ways.

Words that translate each other are found in parallel text; their vectors at one layer are what every method is fitted
on, each language with the hub by itself. The encoder as it is and every mapped one are then judged by the recipe's
tasks, as in Table 1 of Zhao and Eger ("Constrained Density Matching and Modeling"). Every step is kept: a run that goes
on does none again.

Shapes: N word pairs, D width.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.config import Config, operational
from babelray.errors import DataError, RecipeError, TrainingError
from babelray.evaluation.catalogue import AnyTask
from babelray.evaluation.comparison import TaskScores
from babelray.evaluation.mapping_page import Measured, mapping_page, mapping_table
from babelray.evaluation.transfer_tasks import TransferTask
from babelray.languages import Language
from babelray.mapping.contextual import ORIGINAL, MapConfig, NamedMapping
from babelray.stages.evaluate import judge
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from babelray.evaluation.contextual_bli import Tokenised
    from babelray.evaluation.task import EvaluationTask
    from babelray.recipe import Recipe


class Settings(Config):
    name: str = operational("encoder")
    named: dict[str, Language] = operational({})
    """The languages as a page calls them."""
    languages: list[str]
    hub: str
    seed: int
    map: MapConfig
    tasks: list[AnyTask]

    @property
    def others(self) -> list[str]:
        return [code for code in self.languages if code != self.hub]


class MapStage(Stage[Settings]):
    """Leaves `METHOD/` for each method, which `MappedEncoder` opens, and the `encoder/` that they share. `scores.json`:
    {task: {original | METHOD: {language: {measure: value}}}}; `mapping.md` and `mapping.html` show it. Every answer is
    under `predictions/`.
    """

    name = "map"
    needs = ("corpus", "encoder")

    def settings(self, recipe: Recipe) -> Settings:
        if recipe.map is None:
            raise RecipeError("the recipe does not say how to map", "Give it a key `map` with `methods`.")
        return Settings(
            name=recipe.name,
            named=recipe.resolved_languages(),
            languages=recipe.languages,
            hub=recipe.hub,
            seed=recipe.seed,
            map=recipe.map,
            tasks=recipe.evaluate.tasks,
        )

    def sources(self, settings: Settings) -> list[Place]:
        return [place for task in _reading(settings) if not task.missing() for place in task.sources()]

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        from babelray.encoder.mapped import copy_encoder, describe

        settings, encoder = job.settings, job.source("encoder") / "encoder"
        if not settings.others:
            raise DataError("there is only one language: nothing can be mapped", "List at least two languages.")
        layer = _layer(encoder, settings.map.layer)
        segmenters = job.inputs["corpus"].manifest["settings"]["segmenters"]
        plan = Plan(settings, job.source("corpus"), encoder, layer, segmenters, job.out)
        found = run_tasks([Task(c, collect, (plan, c)) for c in settings.others], job.progress, "languages")
        units = [(method, code) for method in settings.map.methods for code in settings.others]
        fits = run_tasks(
            [Task(f"{m.label}, {c}", fit, (plan, m, c), _memory(m, *found[c])) for m, c in units],
            job.progress,
            "mappings",
            cpus=1,
        )
        fitted = []
        for method in settings.map.methods:
            outcomes = {code: fits[f"{method.label}, {code}"] for code in settings.others}
            if failed := [f"{code}: {done['failed']}" for code, done in outcomes.items() if "failed" in done]:
                job.say(f"left out: {method.label}, since it failed. {failed[0]}")
                (job.out / method.label).delete()
            else:
                describe(job.out / method.label, layer, settings.hub)
                fitted.append(method)
        copy_encoder(encoder, job.out)
        measured = self._judge(job, fitted, layer)
        groups = {
            "": [ORIGINAL],
            "supervised": [method.label for method in fitted if not method.unsupervised],
            "unsupervised": [method.label for method in fitted if method.unsupervised],
        }
        (job.out / "scores.json").write_json({task.label: task.scores for task in measured})
        (job.out / "mapping.md").write_text(mapping_table(measured, groups))
        (job.out / "mapping.html").write_text(mapping_page(settings.name, measured, groups, settings.named))
        means = {f"{task.label}/{system}": value for task in measured for system, value in task.means.items()}
        seconds = {
            f"seconds/{m.label}": sum(fits[f"{m.label}, {c}"]["seconds"] for c in settings.others) for m in fitted
        }
        return {"pairs": {code: count for code, (count, _) in found.items()}, **means, **seconds}

    def _judge(self, job: Job[Settings], fitted: list[NamedMapping], layer: int) -> list[Measured]:
        """The recipe's tasks, for the encoder as it is and for every mapped one."""
        listed = []
        for task in job.settings.tasks:
            if isinstance(task, TransferTask):
                job.say(f"left out: {task.label}, since it trains the encoder")
            elif missing := task.missing():
                job.say(f"left out: {task.label}, since {missing.removeprefix(f'{task.label}: ')}")
            else:
                listed.append(task.model_copy(update={"layer": layer}))
        systems = {ORIGINAL: job.out / "encoder", **{m.label: job.out / m.label for m in fitted}}
        found = run_tasks(
            [
                Task(f"{task.label}: {name}", judge, (task, place, job.out, name))
                for task in listed
                for name, place in systems.items()
            ],
            job.progress,
            "scores",
        )
        return [_measured(task, {name: found[f"{task.label}: {name}"] for name in systems}, job.out) for task in listed]


def _reading(settings: Settings) -> list[EvaluationTask]:
    """The tasks that do not train the encoder."""
    return [task for task in settings.tasks if not isinstance(task, TransferTask)]


def _layer(encoder: Place, layer: int) -> int:
    """The layer as a number from 0; the last one if the encoder has fewer."""
    from transformers import AutoConfig

    from babelray.encoder.load import resolve_layer

    with (encoder / "config.json").local_input() as file:
        count = AutoConfig.from_pretrained(file, trust_remote_code=False).num_hidden_layers
    return min(layer, count) if layer >= 0 else resolve_layer(layer, count)


def _memory(method: NamedMapping, count: int, width: int) -> int:
    """Bytes that a fit takes: vectors of both sides several times, and for VecMap a matrix of similarities."""
    cells = min(method.vecmap.cutoff, count) ** 2 if method.method == "vecmap" else 0
    return 40 * count * width + 5 * cells + (3 << 28)  # Python and torch, and what retrieval keeps


@dataclass(frozen=True)
class Plan:
    """What every task needs to know."""

    settings: Settings
    corpus: Place
    encoder: Place
    layer: int
    segmenters: dict[str, str]
    out: Place

    def occurrences(self, code: str) -> Place:
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
        sources = tokenised((pair.source for pair in pairs), Segmenter.of(code, self.segmenters[code]))
        return sources, tokenised((pair.target for pair in pairs), Segmenter.of(hub, self.segmenters[hub]))


def collect(plan: Plan, code: str) -> tuple[int, int]:
    """Vectors (N, D) of words in context and of the words that translate them; how many, and how wide."""
    from safetensors.torch import load_file, save_file

    from babelray.encoder.text_encoder import TextEncoder
    from babelray.evaluation.contextual_bli import linked_occurrences, occurrence_vectors
    from babelray.lexicon.word_alignment import align_words

    config, place = plan.settings.map, plan.occurrences(code)
    if place.exists():
        with place.local_input() as file:
            count, width = load_file(file)["own"].shape
        return count, width
    sources, targets = plan.parallel(code)
    own, hub = ([sentence.tokens for sentence in side] for side in (sources, targets))
    limits = (config.min_count, config.occurrences_per_word, config.pairs)
    linked = linked_occurrences(own, hub, align_words(own, hub), *limits)
    with plan.encoder.local_input() as folder:
        encoder = TextEncoder.open(str(folder), plan.layer, config.batch_tokens)
        x_ND, x_read_N = occurrence_vectors(encoder, sources, [(one.pair, one.source) for one in linked])
        z_ND, z_read_N = occurrence_vectors(encoder, targets, [(one.pair, one.target) for one in linked])
    read_N = x_read_N & z_read_N
    if int(read_N.sum()) < 2:
        problem = f"{code}: in {len(sources):,} sentence pairs no two words are linked {config.min_count} times"
        raise DataError(problem, "Give more parallel text, or a smaller map.min_count.")
    with place.writing() as file:
        save_file({"own": x_ND[read_N], "hub": z_ND[read_N]}, file)
    return int(read_N.sum()), x_ND.shape[1]


def fit(plan: Plan, method: NamedMapping, code: str) -> dict[str, Any]:
    """Fit a method for one language and leave both sides' mappings; a training that diverges is said, not raised."""
    import torch
    from safetensors.torch import load_file

    from babelray.encoder.mapped import Sides
    from babelray.mapping.build import map_both

    done = plan.out / "work" / "fits" / f"{method.label}-{code}.json"
    if done.exists():
        return done.read_json()
    with plan.occurrences(code).local_input() as file:
        vectors = load_file(file)
    own_ND, hub_ND = vectors["own"], vectors["hub"]
    rows_N = torch.arange(len(own_ND))
    if method.unsupervised:
        hub_ND = hub_ND[torch.randperm(len(hub_ND), generator=torch.Generator().manual_seed(plan.settings.seed))]
    start = time.monotonic()
    try:
        own, hub = map_both(
            own_ND, hub_ND, None if method.unsupervised else (rows_N, rows_N), method, plan.settings.seed
        )
    except TrainingError as error:
        outcome: dict[str, Any] = {"failed": str(error)}
    else:
        stays = torch.equal(hub.transform(hub_ND), hub_ND)
        Sides(own, None if stays else hub).save(plan.out / method.label / "mappings" / code)
        outcome = {"seconds": round(time.monotonic() - start, 1)}
    done.write_json(outcome)
    return outcome


def _measured(task: EvaluationTask, scores: dict[str, dict[str, dict[str, float]]], out: Place) -> Measured:
    """What the tables show of a task."""
    from babelray.evaluation.hits import hits_of

    languages = list(scores[ORIGINAL])
    answers = {name: (out / "predictions" / f"{task.label}-{name}.json").read_json() for name in scores}
    board = TaskScores(
        label=task.label,
        measure=task.main.replace("_", " "),
        percent=task.columns[task.main] == "%",
        means={name: [fmean(some[code][task.main] for code in languages)] for name, some in scores.items()},
        hits={name: [hits_of(some, languages)] for name, some in answers.items()},
    )
    return Measured(task.label, task.main, scores, board)
