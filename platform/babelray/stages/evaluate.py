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


class EvaluationSettings(Config):
    languages: list[str]
    hub: str
    evaluate: EvaluateConfig


class EvaluateStage(Stage[EvaluationSettings]):
    """Leaves `scores.json`: {task: {before | after: {language: {measure: value}}}}; for word similarity across
    languages the key is `de-en`. With `bli: matrix` also `matrix.json`: {before | after: {source: {target: P@1}}}.
    """

    name = "evaluate"
    needs = ("corpus", "encoder", "extract", "align", "pretrain")

    def settings(self, recipe: Recipe) -> EvaluationSettings:
        return EvaluationSettings(languages=recipe.languages, hub=recipe.hub, evaluate=recipe.evaluate)

    def sources(self, settings: EvaluationSettings) -> list[Place]:
        return [
            place for source in settings.evaluate.word_similarity for place in source.files(settings.languages).values()
        ]

    def run(self, job: Job[EvaluationSettings]) -> dict[str, Any]:
        settings, corpus = job.settings, job.source("corpus")
        others = [code for code in settings.languages if code != settings.hub]
        if not others:
            raise DataError("there is only one language: nothing can be compared", "List at least two languages.")
        encoders = {"before": job.source("encoder") / "encoder", "after": job.source("pretrain") / "encoder"}
        vectors = {"before": job.source("extract"), "after": job.source("align")}
        tasks = [
            *(Task(f"encoder/{when}", encoder_scores, (settings, others, encoders[when], corpus)) for when in encoders),
            *(Task(f"vectors/{when}", _vector_scores, (settings, others, vectors[when], corpus)) for when in vectors),
        ]
        rows = [(when, code) for when in vectors for code in settings.languages if settings.evaluate.bli == "matrix"]
        tasks += [Task(f"{c} to all/{w}", _matrix_row, (settings, c, vectors[w], corpus)) for w, c in rows]
        found = run_tasks(tasks, job.progress, "tasks")
        scores: dict[str, dict[str, Any]] = {task: {} for task in MEASURE}
        for task in tasks[: len(encoders) + len(vectors)]:
            for measured, by_language in found[task.name].items():
                scores[measured][task.name.rpartition("/")[2]] = by_language
        (job.out / "scores.json").write_json(scores)
        if rows:
            matrix = {when: {c: found[f"{c} to all/{when}"] for c in settings.languages} for when in vectors}
            (job.out / "matrix.json").write_json(matrix)
        return averages(scores)


MEASURE = {"retrieval": "mean", "words": "p1", "bli": "p1", "similarity": "harmonic"}
"""The measure that stands for a task in tables."""


def averages(scores: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The mean over languages of each task's main measure, before and after."""
    return {
        f"{task}/{when}": fmean(values[MEASURE[task]] for values in by_language.values())
        for task, versions in scores.items()
        for when, by_language in versions.items()
        if by_language
    }


def encoder_scores(settings: EvaluationSettings, others: list[str], encoder: Place, corpus: Place) -> dict[str, Any]:
    """Sentence retrieval, and translation of words that are encoded alone."""
    from babelray.encoder.layers import LayerReader, longest_input
    from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer
    from babelray.encoder.pool import encode_sentences
    from babelray.evaluation.bli import bli
    from babelray.evaluation.retrieval import retrieval_accuracy
    from babelray.text.corpus import read_vocabulary
    from babelray.vectors.word_vectors import WordVectors

    with encoder.local_input() as folder:
        tokenizer, model = load_tokenizer(str(folder)), load_encoder(str(folder))
    reader = LayerReader(model, [resolve_layer(settings.evaluate.layer, model.config.num_hidden_layers)])
    longest, budget = longest_input(model, tokenizer), settings.evaluate.batch_tokens

    def encode(texts: list[str]) -> Any:
        return encode_sentences(reader.highest, reader.device, tokenizer, texts, longest, budget)

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


def _vector_scores(settings: EvaluationSettings, others: list[str], vectors: Place, corpus: Place) -> dict[str, Any]:
    """Translation of words, and similarity of words, by their static vectors."""
    from babelray.evaluation.bli import bli
    from babelray.evaluation.word_similarity import read_ratings, word_similarity
    from babelray.vectors.word_vectors import WordVectors

    def load(code: str) -> WordVectors:
        return WordVectors.load(vectors / "vectors" / code)

    hub = load(settings.hub)
    pairs = {code: _test_pairs(corpus, "dictionary", code, settings.hub) for code in others}
    scores: dict[str, Any] = {"bli": {c: bli(load(c), hub, pairs[c]) for c in others if pairs[c]}, "similarity": {}}
    for number, source in enumerate(settings.evaluate.word_similarity, start=1):
        for (first, second), place in source.files(settings.languages).items():
            name = first if first == second else f"{first}-{second}"
            name = f"{name} ({number})" if name in scores["similarity"] else name
            ratings = read_ratings(place)
            scores["similarity"][name] = word_similarity(load(first), load(second), ratings, source.missing)
    return scores


def _matrix_row(settings: EvaluationSettings, code: str, vectors: Place, corpus: Place) -> dict[str, float]:
    """P@1 from one language to every other."""
    from babelray.evaluation.bli import bli, gold
    from babelray.vectors.word_vectors import WordVectors

    source = WordVectors.load(vectors / "vectors" / code)
    tests = {
        other: _test_pairs(corpus, "dictionary", other, settings.hub)
        for other in settings.languages
        if other != settings.hub
    }
    row = {}
    for other in settings.languages:
        pairs = gold(tests, code, other, settings.hub)
        if other != code and pairs:
            row[other] = bli(source, WordVectors.load(vectors / "vectors" / other), pairs)["p1"]
    return row


def _test_pairs(corpus: Place, kind: str, code: str, hub: str) -> list[tuple[str, str]]:
    from babelray.lexicon.pairs import read_pairs

    return [(pair.source, pair.target) for pair in read_pairs(corpus / kind / f"{code}-{hub}", "test")]
