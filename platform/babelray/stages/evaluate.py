"""The evaluate stage: how well the languages meet, before and after."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.errors import DataError
from babelray.evaluation.config import EvaluateConfig
from babelray.stages.stage import Job, Stage
from babelray.stages.tasks import Task, run_tasks
from babelray.storage import Place

if TYPE_CHECKING:
    from babelray.recipe import Recipe


class Settings(Config):
    languages: list[str]
    hub: str
    evaluate: EvaluateConfig


class EvaluateStage(Stage[Settings]):
    """Leaves `scores.json`: {task: {before | after: {language: {measure: value}}}}."""

    name = "evaluate"
    needs = ("corpus", "encoder", "extract", "align", "pretrain")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, hub=recipe.hub, evaluate=recipe.evaluate)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        settings, corpus = job.settings, job.source("corpus")
        others = [code for code in settings.languages if code != settings.hub]
        if not others:
            raise DataError("there is only one language: nothing can be compared", "List at least two languages.")
        tasks = [
            Task("retrieval/before", _retrieval, (settings, others, job.source("encoder") / "encoder", corpus)),
            Task("retrieval/after", _retrieval, (settings, others, job.source("pretrain") / "encoder", corpus)),
            Task("bli/before", _bli, (settings, others, job.source("extract"), corpus)),
            Task("bli/after", _bli, (settings, others, job.source("align"), corpus)),
        ]
        results = run_tasks(tasks, job.progress, "tasks")
        scores: dict[str, dict[str, Any]] = {"retrieval": {}, "bli": {}}
        for name, values in results.items():
            task, when = name.split("/")
            scores[task][when] = values
        (job.out / "scores.json").write_json(scores)
        return averages(scores)


MEASURE = {"retrieval": "mean", "bli": "p1"}
"""The measure that stands for a task in tables."""


def averages(scores: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The mean over languages of each task's main measure, before and after."""
    return {
        f"{task}/{when}": fmean(values[MEASURE[task]] for values in by_language.values())
        for task, versions in scores.items()
        for when, by_language in versions.items()
        if by_language
    }


def _retrieval(settings: Settings, others: list[str], encoder: Place, corpus: Place) -> dict[str, Any]:
    from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer
    from babelray.encoder.pool import encode_sentences
    from babelray.evaluation.retrieval import retrieval_accuracy
    from babelray.lexicon.pairs import read_pairs

    with encoder.local_input() as folder:
        tokenizer, model = load_tokenizer(str(folder)), load_encoder(str(folder))
    layer = resolve_layer(settings.evaluate.layer, model.config.num_hidden_layers)
    scores: dict[str, Any] = {}
    for code in others:
        place = corpus / "parallel" / f"{code}-{settings.hub}.parquet"
        pairs = read_pairs(place, "test") if place.exists() else []
        if not pairs:
            continue
        sides = ([pair.source for pair in pairs], [pair.target for pair in pairs])
        source, target = (
            encode_sentences(model, tokenizer, side, layer, settings.evaluate.batch_tokens) for side in sides
        )
        scores[code] = retrieval_accuracy(source, target) | {"sentences": len(pairs)}
    return scores


def _bli(settings: Settings, others: list[str], vectors: Place, corpus: Place) -> dict[str, Any]:
    from babelray.evaluation.bli import bli
    from babelray.lexicon.pairs import read_pairs
    from babelray.vectors.word_vectors import WordVectors

    hub = WordVectors.load(vectors / "vectors" / settings.hub)
    scores: dict[str, Any] = {}
    for code in others:
        place = corpus / "dictionary" / f"{code}-{settings.hub}.parquet"
        pairs = [(pair.source, pair.target) for pair in read_pairs(place, "test")] if place.exists() else []
        if pairs:
            scores[code] = bli(WordVectors.load(vectors / "vectors" / code), hub, pairs)
    return scores
