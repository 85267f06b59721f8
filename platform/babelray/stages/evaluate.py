"""The evaluate stage: how well the languages meet, before and after."""

from __future__ import annotations

from itertools import islice
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
    languages the key is `de-en`, and for `layers` the measures are layers. With `bli: matrix` also `matrix.json`:
    {before | after: {source: {target: P@1}}}.
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
        judged = encoders if settings.evaluate.perplexity else {}
        tasks = [
            *(Task(f"encoder/{when}", encoder_scores, (settings, others, encoders[when], corpus)) for when in encoders),
            *(Task(f"language model/{w}", _perplexity, (settings, others, encoders[w], corpus)) for w in judged),
            *(Task(f"vectors/{when}", _vector_scores, (settings, others, vectors[when], corpus)) for when in vectors),
        ]
        rows = [(when, code) for when in vectors for code in settings.languages if settings.evaluate.bli == "matrix"]
        tasks += [Task(f"{c} to all/{w}", _matrix_row, (settings, c, vectors[w], corpus)) for w, c in rows]
        found = run_tasks(tasks, job.progress, "tasks")
        scores: dict[str, dict[str, Any]] = {}
        for task in tasks[: len(tasks) - len(rows)]:
            for measured, by_language in found[task.name].items():
                scores.setdefault(measured, {})[task.name.rpartition("/")[2]] = by_language
        (job.out / "scores.json").write_json(scores)
        if rows:
            matrix = {when: {c: found[f"{c} to all/{when}"] for c in settings.languages} for when in vectors}
            (job.out / "matrix.json").write_json(matrix)
        return averages(scores)


MEASURE = {
    "retrieval": "mean",
    "words": "p1",
    "bli": "p1",
    "similarity": "harmonic",
    "perplexity": "bits_per_character",
}
"""The measure that stands for a task in tables."""


def averages(scores: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The mean over languages of each task's main measure, before and after."""
    return {
        f"{task}/{when}": fmean(values[measure] for values in by_language.values())
        for task, measure in MEASURE.items()
        for when, by_language in scores.get(task, {}).items()
        if by_language
    }


def encoder_scores(settings: EvaluationSettings, others: list[str], encoder: Place, corpus: Place) -> dict[str, Any]:
    """Sentence retrieval, also layer by layer, and translation of words that are encoded alone."""
    import torch

    from babelray.encoder.layers import LayerReader, longest_input
    from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer
    from babelray.encoder.text_encoder import TextEncoder
    from babelray.evaluation.bli import bli
    from babelray.evaluation.retrieval import retrieval_accuracy
    from babelray.text.corpus import read_vocabulary
    from babelray.vectors.word_vectors import WordVectors

    with encoder.local_input() as folder:
        tokenizer, model = load_tokenizer(str(folder)), load_encoder(str(folder))
    count = model.config.num_hidden_layers
    layer = resolve_layer(settings.evaluate.layer, count)
    longest, budget = longest_input(model, tokenizer), settings.evaluate.batch_tokens

    def encode(texts: list[str], reader: LayerReader) -> dict[int, Any]:
        """Vectors (N, D) at each of the reader's layers."""

        def read(ids_BT: Any, mask_BT: Any) -> Any:
            return torch.cat(list(reader(ids_BT, mask_BT).values()), -1)

        vectors = TextEncoder(read, reader.device, tokenizer, longest, budget).sentences(texts)
        return dict(zip(reader.layers, vectors.chunk(len(reader.layers), dim=1), strict=True))

    def alone(code: str, words: list[str]) -> WordVectors:
        counts = dict.fromkeys(words, 0) | dict(islice(read_vocabulary(corpus, code).items(), settings.evaluate.words))
        return WordVectors(list(counts), encode(list(counts), one)[layer], list(counts.values()))

    scores: dict[str, Any] = {"retrieval": {}, "layers": {}, "words": {}}
    every = LayerReader(model, range(count + 1) if settings.evaluate.by_layer else [layer])
    sentences = {code: _test_pairs(corpus, "parallel", code, settings.hub) for code in others}
    for code, pairs in sentences.items():
        if pairs:
            source, target = (encode([pair[side] for pair in pairs], every) for side in (0, 1))
            accuracy = {number: retrieval_accuracy(source[number], target[number]) for number in every.layers}
            scores["retrieval"][code] = accuracy[layer] | {"sentences": len(pairs)}
            if settings.evaluate.by_layer:
                scores["layers"][code] = {str(number): values["mean"] for number, values in accuracy.items()}
    one = LayerReader(model, [layer])  # cuts off what is above
    words = {code: _test_pairs(corpus, "dictionary", code, settings.hub) for code in others}
    hub = alone(settings.hub, [target for pairs in words.values() for _, target in pairs])
    for code, pairs in words.items():
        if pairs:
            scores["words"][code] = bli(alone(code, [source for source, _ in pairs]), hub, pairs)
    return scores


def _perplexity(settings: EvaluationSettings, others: list[str], encoder: Place, corpus: Place) -> dict[str, Any]:
    """The encoder as a language model, on held-out sentences of every language."""
    import torch

    from babelray.encoder.layers import longest_input
    from babelray.encoder.load import load_masked_lm, load_tokenizer
    from babelray.evaluation.perplexity import mlm_loss, pseudo_perplexity

    most = settings.evaluate.perplexity
    pairs = {code: _test_pairs(corpus, "parallel", code, settings.hub) for code in others}
    texts = {settings.hub: list(dict.fromkeys(target for some in pairs.values() for _, target in some))}
    texts |= {code: [source for source, _ in some] for code, some in pairs.items()}
    texts = {code: some[:: max(1, len(some) // most)][:most] for code, some in texts.items() if some}
    with encoder.local_input() as folder:
        tokenizer, model = load_tokenizer(str(folder)), load_masked_lm(str(folder)).eval()
    device = torch.device("cpu")
    longest, budget = longest_input(model, tokenizer), settings.evaluate.batch_tokens
    return {
        "perplexity": {
            code: pseudo_perplexity(model, device, tokenizer, some, longest, budget)
            | {"mlm": mlm_loss(model, device, tokenizer, some, longest, budget), "sentences": len(some)}
            for code, some in texts.items()
        }
    }


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
