"""Sentence retrieval with the hub: Tatoeba, or any parallel sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from babelray.errors import DataError
from babelray.evaluation.benchmark import BENCHMARKS, Result, System
from babelray.evaluation.parallel import ParallelBenchmark
from babelray.metrics.intervals import LEVEL, probability_of_guessing

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import Pooling, TextEncoder
    from babelray.metrics.retrieval import Retrieval, Scoring

NO_COINCIDENCE = 1e-5
"""A shift is reported if guesses would show it with a smaller probability."""


@BENCHMARKS.register
class Tatoeba(ParallelBenchmark):
    """Share of sentences whose nearest neighbour in the other language is their translation, both directions averaged;
    nothing is trained for it. The Tatoeba benchmark of Artetxe and Schwenk (2019), as in Hämmerl et al. (2022) and Zhao
    and Eger (2022).
    """

    title: ClassVar[str] = "Sentence retrieval with the hub"
    main_metric: ClassVar[str] = "mean"
    columns: ClassVar[Mapping[str, str]] = {
        "sentences": ",.0f",
        "to_hub": "%",
        "from_hub": "%",
        "mean": "%",
        "mean_margin": ".3f",
    }
    metric_titles: ClassVar[Mapping[str, str]] = {"mean_margin": "margin"}

    benchmark: Literal["tatoeba"] = "tatoeba"
    scoring: Literal["cosine", "csls", "margin"] = "cosine"
    pooling: Literal["mean", "first", "last"] = "mean"

    def run(self, encoder: TextEncoder, system: System) -> Result:
        results = sentence_retrieval(encoder, self.read(), self.scoring, self.pooling, hub=self.hub)
        return Result(
            {code: result.scores for code, result in results.items()},
            {code: result.predictions() for code, result in results.items()},
            chance={code: result.chance for code, result in results.items()},
        )

    def remarks(self, result: Result) -> list[str]:
        shifted = {code: lines for code in result.predictions if (lines := find_line_shift(result, code))}
        guessed = [code for code in result.predictions if code not in shifted and is_guessing(result, code)]
        remarks = [
            f"{code}: the sentences seem shifted by one line: far more of them find the translation of the "
            f"{'next' if lines > 0 else 'previous'} line than their own"
            for code, lines in shifted.items()
        ]
        if guessed:
            remarks.append(f"not better than guessing: {', '.join(guessed)}: are both languages in one space?")
        return [*super().remarks(result), *describe_repetitions(result.predictions, self.hub), *remarks]


def is_guessing(result: Result, code: str) -> bool:
    """Whether guesses would often be as accurate as a language."""
    accuracy, chance = result.scores[code]["mean"], result.chance[code]
    return chance < 1 and probability_of_guessing(accuracy, _distinct(result, code), chance) > (1 - LEVEL) / 2


def find_line_shift(result: Result, code: str) -> int:
    """1 or -1 if answers that seem guessed are the translations of the next or previous lines; otherwise 0."""
    if not is_guessing(result, code):
        return 0
    answers, chance = result.predictions[code], result.chance[code]
    for lines in (1, -1):
        hits = [
            position == place + step
            for side, step in (("to_hub", lines), ("from_hub", -lines))
            for place, position in enumerate(answers[side]["positions"])
        ]
        if probability_of_guessing(fmean(hits), _distinct(result, code), chance) < NO_COINCIDENCE:
            return lines
    return 0


def _distinct(result: Result, code: str) -> int:
    """The number of sentences that are independent."""
    answers = result.predictions[code]
    return len(set(answers.get("clusters", range(len(answers["to_hub"]["positions"])))))


def describe_repetitions(predictions: Mapping[str, Any], hub: str) -> list[str]:
    """A sentence about each language whose test sentences repeat."""
    return [
        f"{code}: {len(clusters)} pairs, {len(set(clusters))} distinct {hub!r} sentences; intervals and p-values count "
        "distinct ones"
        for code, answers in predictions.items()
        if (clusters := answers.get("clusters"))
    ]


class LanguageRetrieval(NamedTuple):
    """The result of a language: `Retrieval.metrics` and the number of `sentences`; every answer."""

    scores: dict[str, float]
    answers: Retrieval
    chance: float
    """The accuracy of guessing."""
    clusters: list[int]
    """For each pair the place where its sentence of the hub occurs first: pairs that share one are not independent."""

    def predictions(self) -> dict[str, Any]:
        """Every answer, as JSON can hold it; with `clusters` if sentences of the hub repeat."""
        repeated = len(set(self.clusters)) < len(self.clusters)
        return {**self.answers.predictions(), **({"clusters": self.clusters} if repeated else {})}


def sentence_retrieval(
    encoder: TextEncoder,
    pairs: Iterable[tuple[str, Sequence[str], Sequence[str]]],
    scoring: Scoring = "cosine",
    pooling: Pooling = "mean",
    either_place: bool = True,
    hub: str = "en",
) -> dict[str, LanguageRetrieval]:
    """Retrieval between each language and the hub, by the vectors that an encoder gives whole sentences.

    `pairs` are a language's code, its sentences, and their translations into the hub (see `parallel`). A sentence of
    the hub is encoded once, however many languages it occurs with. `either_place`: a candidate that is the same
    sentence as the translation is right; published figures count only the translation's own line.
    """
    import torch

    from babelray.metrics.retrieval import chance_of_groups, groups_of, retrieve

    hub_vectors: dict[str, Tensor] = {}
    hub_reader: TextEncoder | None = None

    def read(own: TextEncoder, texts: Sequence[str]) -> dict[str, Tensor]:
        new = [text for text in dict.fromkeys(texts) if own is not hub_reader or text not in hub_vectors]
        return dict(zip(new, own.encode(new, pooling) if new else [], strict=True))

    results: dict[str, LanguageRetrieval] = {}
    for code, sentences, translations in pairs:
        if code in results:
            raise DataError(f"there are sentences of language {code!r} twice", "Give each language once.")
        if not sentences or len(sentences) != len(translations):
            problem = f"language {code!r} has {len(sentences)} sentences and {len(translations)} translations"
            raise DataError(problem, "Give every sentence its translation, and at least one.")
        own, reader = encoder.for_language(code, hub), encoder.for_language(hub, code)
        if reader is not hub_reader:  # a mapped hub may have another mapping beside each language
            hub_reader, hub_vectors = reader, {}
        hub_vectors |= read(reader, translations)
        vectors = hub_vectors | read(own, sentences)
        source_ND = torch.stack([vectors[text] for text in sentences])
        target_ND = torch.stack([hub_vectors[text] for text in translations])
        groups = (groups_of(sentences), groups_of(translations)) if either_place else None
        answers = retrieve(source_ND, target_ND, scoring, groups)
        guesses = [chance_of_groups(side) for side in groups or [range(len(sentences))] * 2]
        scores = answers.metrics() | {"sentences": len(sentences)}
        results[code] = LanguageRetrieval(scores, answers, sum(guesses) / 2, groups_of(translations))
    return results
