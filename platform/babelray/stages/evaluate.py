"""The evaluate stage: how well the languages meet, before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.errors import DataError
from babelray.evaluation.config import EvaluateConfig
from babelray.stages.stage import Job, Stage
from babelray.storage import Place
from babelray.tasks import Task, run_tasks

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.evaluation.task import EvaluationTask
    from babelray.recipe import Recipe

FEWEST = 10
"""Two languages that share fewer sentences are not compared."""
PICTURED, CONCEPTS = 6, 24
"""Languages and words of each that the picture shows."""


class EvaluationSettings(Config):
    languages: list[str]
    hub: str
    evaluate: EvaluateConfig


class EvaluateStage(Stage[EvaluationSettings]):
    """Leaves `scores.json`: {task: {before | after: {language: {measure: value}}}}; for word similarity across
    languages the key is `de-en`, and for `layers` the measures are layers. Where pairs of languages can be compared
    also `retrieval_matrix.json`, and with `bli: matrix` `matrix.json`: {before | after: {source: {target: accuracy}}}.
    `picture.json`: words in two dimensions. With `tasks` also `tasks.json`: {name: {results: {before | after: …},
    p: …}}, and every answer under `predictions/`.
    """

    name = "evaluate"
    needs = ("corpus", "encoder", "extract", "align", "pretrain")

    def settings(self, recipe: Recipe) -> EvaluationSettings:
        return EvaluationSettings(languages=recipe.languages, hub=recipe.hub, evaluate=recipe.evaluate)

    def sources(self, settings: EvaluationSettings) -> list[Place]:
        rated = [
            place for source in settings.evaluate.word_similarity for place in source.files(settings.languages).values()
        ]
        return rated + [place for task in settings.evaluate.tasks if not task.missing() for place in task.sources()]

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
        listed = []
        for task in settings.evaluate.tasks:
            if missing := task.missing():
                job.say(f"left out: {task.label}, since {missing.removeprefix(f'{task.label}: ')}")
            else:
                listed.append(task)
        judging = [
            Task(f"{task.label}/{when}", judge, (task, encoders[when], job.out, when))
            for task in listed
            for when in encoders
        ]
        found = run_tasks([*judging, *tasks], job.progress, "tasks")  # the long ones first
        scores: dict[str, dict[str, Any]] = {}
        for done in tasks[: len(tasks) - len(rows)]:
            for measured, by_language in found[done.name].items():
                scores.setdefault(measured, {})[done.name.rpartition("/")[2]] = by_language
        for beside in ("retrieval_matrix", "picture"):
            values = scores.pop(beside)
            if all(values.values()):
                (job.out / f"{beside}.json").write_json(values)
        (job.out / "scores.json").write_json(scores)
        if rows:
            matrix = {when: {c: found[f"{c} to all/{when}"] for c in settings.languages} for when in vectors}
            (job.out / "matrix.json").write_json(matrix)
        judged_by = {
            task.label: _compared(task, {when: found[f"{task.label}/{when}"] for when in encoders}, job.out)
            for task in listed
        }
        if listed:
            (job.out / "tasks.json").write_json(judged_by)
        return averages(scores) | task_averages(judged_by)


def judge(task: EvaluationTask, encoder: Place, out: Place, name: str) -> dict[str, dict[str, float]]:
    """The scores of an encoder on a task, by language; what an interrupted run has done already is kept."""
    from babelray.encoder.mapped import is_mapped

    done = out / "results" / f"{task.label}-{name}.json"
    if done.exists():
        return done.read_json()
    if is_mapped(str(encoder)):
        result = task.score(str(encoder))
    else:
        with encoder.local_input() as folder:
            result = task.score(str(folder))
    (out / "predictions" / f"{task.label}-{name}.json").write_json(result.predictions)
    done.write_json(result.scores)
    return {code: dict(values) for code, values in result.scores.items()}


def _compared(task: EvaluationTask, results: dict[str, dict[str, dict[str, float]]], out: Place) -> dict[str, Any]:
    """What `tasks.json` says of a task: both results, and whether they differ by more than chance."""
    from babelray.evaluation.hits import hits_of, p_values

    answers = [(out / "predictions" / f"{task.label}-{when}.json").read_json() for when in results]
    first, second = (hits_of(some, list(results["before"])) for some in answers)
    return {
        "task": task.task,
        "settings": task.model_dump(mode="json"),
        "main": task.main,
        "columns": dict(task.columns),
        "results": results,
        "p": p_values(first, second),
    }


def task_averages(judged: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The mean over languages of each listed task's main measure, before and after."""
    return {
        f"{label}/{when}": fmean(values[about["main"]] for values in by_language.values())
        for label, about in judged.items()
        for when, by_language in about["results"].items()
    }


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
    aligned: dict[str, dict[str, Any]] = {settings.hub: {}}
    for code, pairs in sentences.items():
        if pairs:
            source, target = (encode([pair[side] for pair in pairs], every) for side in (0, 1))
            accuracy = {number: retrieval_accuracy(source[number], target[number]) for number in every.layers}
            scores["retrieval"][code] = accuracy[layer] | {"sentences": len(pairs)}
            if settings.evaluate.by_layer:
                scores["layers"][code] = {str(number): values["mean"] for number, values in accuracy.items()}
            aligned[code] = dict(zip((pair[1] for pair in pairs), source[layer], strict=True))
            aligned[settings.hub] |= zip((pair[1] for pair in pairs), target[layer], strict=True)
    scores["retrieval_matrix"] = between_all(aligned)
    one = LayerReader(model, [layer])  # cuts off what is above
    words = {code: _test_pairs(corpus, "dictionary", code, settings.hub) for code in others}
    hub = alone(settings.hub, [target for pairs in words.values() for _, target in pairs])
    for code, pairs in words.items():
        if pairs:
            scores["words"][code] = bli(alone(code, [source for source, _ in pairs]), hub, pairs)
    scores["picture"] = _picture(words, settings.hub, lambda texts: encode(texts, one)[layer])
    return scores


def between_all(aligned: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, float]]:
    """How often a sentence of a language (rows) finds its translation in another (columns).

    `aligned`: of each language the vectors of sentences, by what they translate; pairs of languages that share fewer
    than `FEWEST` sentences are left out.
    """
    import torch

    from babelray.evaluation.retrieval import retrieval_accuracy

    rows: dict[str, dict[str, float]] = {code: {} for code in aligned}
    for first, second in combinations(aligned, 2):
        shared = [key for key in aligned[first] if key in aligned[second]]
        if len(shared) >= FEWEST:
            a_ND, b_ND = (torch.stack([aligned[code][key] for key in shared]) for code in (first, second))
            found = retrieval_accuracy(a_ND, b_ND)
            rows[first][second], rows[second][first] = found["to_hub"], found["from_hub"]
    return rows if any(rows.values()) else {}


def _picture(words: dict[str, list[tuple[str, str]]], hub: str, encode: Callable[[list[str]], Tensor]) -> list[Any]:
    """Words of the hub and a few languages, encoded alone, in two dimensions; translations share their `concept`."""
    from babelray.evaluation.picture import project

    chosen = sorted((code for code, pairs in words.items() if pairs), key=lambda code: -len(words[code]))[
        : PICTURED - 1
    ]
    translations = {code: {target: source for source, target in words[code]} for code in chosen}
    concepts = [word for word in next(iter(translations.values()), {}) if all(word in t for t in translations.values())]
    concepts = concepts[:CONCEPTS]
    if len(concepts) < 3:
        return []
    texts = {hub: concepts} | {code: [translations[code][word] for word in concepts] for code in chosen}
    places = project({code: encode(some) for code, some in texts.items()})
    return [
        {"language": code, "concept": number, "word": word, "x": round(x, 4), "y": round(y, 4)}
        for code, some in texts.items()
        for number, (word, (x, y)) in enumerate(zip(some, places[code].tolist(), strict=True))
    ]


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
