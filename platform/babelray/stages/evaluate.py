"""The evaluate stage: how well the languages meet, before and after."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.errors import DataError
from babelray.evaluation.config import EvaluateConfig
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

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
            Task("encoder/before", _encoder_scores, (settings, others, job.source("encoder") / "encoder", corpus)),
            Task("encoder/after", _encoder_scores, (settings, others, job.source("pretrain") / "encoder", corpus)),
            Task("vectors/before", _vector_scores, (settings, others, job.source("extract"), corpus)),
            Task("vectors/after", _vector_scores, (settings, others, job.source("align"), corpus)),
        ]
        scores: dict[str, dict[str, Any]] = {task: {} for task in MEASURE}
        for name, tables in run_tasks(tasks, job.progress, "tasks").items():
            for task, by_language in tables.items():
                scores[task][name.rpartition("/")[2]] = by_language
        (job.out / "scores.json").write_json(scores)
        return averages(scores)


MEASURE = {"retrieval": "mean", "words": "p1", "bli": "p1"}
"""The measure that stands for a task in tables."""


def averages(scores: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The mean over languages of each task's main measure, before and after."""
    return {
        f"{task}/{when}": fmean(values[MEASURE[task]] for values in by_language.values())
        for task, versions in scores.items()
        for when, by_language in versions.items()
        if by_language
    }


def _encoder_scores(settings: Settings, others: list[str], encoder: Place, corpus: Place) -> dict[str, Any]:
    """Sentence retrieval, and translation of words that are encoded alone."""
    from babelray.encoder.layers import LayerReader
    from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer
    from babelray.encoder.pool import encode_sentences
    from babelray.evaluation.bli import bli
    from babelray.evaluation.retrieval import retrieval_accuracy
    from babelray.text.corpus import read_vocabulary
    from babelray.vectors.word_vectors import WordVectors

    with encoder.local_input() as folder:
        tokenizer, model = load_tokenizer(str(folder)), load_encoder(str(folder))
    reader = LayerReader(model, [resolve_layer(settings.evaluate.layer, model.config.num_hidden_layers)])

    def encode(texts: list[str]) -> Any:
        return encode_sentences(reader, tokenizer, texts, settings.evaluate.batch_tokens)

    def alone(code: str, words: list[str]) -> WordVectors:
        counts = dict.fromkeys(words, 0) | read_vocabulary(corpus, code)
        return WordVectors(list(counts), encode(list(counts)), list(counts.values()))

    scores: dict[str, Any] = {"retrieval": {}, "words": {}}
    sentences = {code: _test_pairs(corpus, "parallel", code, settings.hub) for code in others}
    for code, pairs in sentences.items():
        if pairs:
            accuracy = retrieval_accuracy(
                encode([source for source, _ in pairs]), encode([target for _, target in pairs])
            )
            scores["retrieval"][code] = accuracy | {"sentences": len(pairs)}
    words = {code: _test_pairs(corpus, "dictionary", code, settings.hub) for code in others}
    hub = alone(settings.hub, [target for pairs in words.values() for _, target in pairs])
    for code, pairs in words.items():
        if pairs:
            scores["words"][code] = bli(alone(code, [source for source, _ in pairs]), hub, pairs)
    return scores


def _vector_scores(settings: Settings, others: list[str], vectors: Place, corpus: Place) -> dict[str, Any]:
    """Translation of words by their static vectors."""
    from babelray.evaluation.bli import bli
    from babelray.vectors.word_vectors import WordVectors

    hub = WordVectors.load(vectors / "vectors" / settings.hub)
    pairs = {code: _test_pairs(corpus, "dictionary", code, settings.hub) for code in others}
    return {"bli": {c: bli(WordVectors.load(vectors / "vectors" / c), hub, pairs[c]) for c in others if pairs[c]}}


def _test_pairs(corpus: Place, kind: str, code: str, hub: str) -> list[tuple[str, str]]:
    from babelray.lexicon.pairs import read_pairs

    return [(pair.source, pair.target) for pair in read_pairs(corpus / kind / f"{code}-{hub}", "test")]
