"""Words of several languages in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from babelray.evaluation.benchmark import BENCHMARKS, EncoderBenchmark, Result, System
from babelray.evaluation.held_out import Pairs, held_out_pairs
from babelray.metrics.closeness import closeness

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder

MAX_LANGUAGES, MAX_CONCEPTS, MIN_CONCEPTS = 6, 24, 3
"""Languages, with the hub, and words of each."""


@BENCHMARKS.register
class WordMap(EncoderBenchmark):
    """Words that the encoder reads alone, on the two directions in which they differ most (principal components of
    their vectors at unit length; one projection and one mean for all languages). Lines join translations. Where
    languages form islands, the space separates words by language; where colours mix and lines are short, by meaning.
    Two dimensions of many: only what is far apart here is surely apart. Each picture has its own scale. The table shows
    how far translations lie apart, relative to any two words of the language and the hub.
    """

    title: ClassVar[str] = "Words on a map"
    main_metric: ClassVar[str] = "distance"
    columns: ClassVar[Mapping[str, str]] = {"distance": ".2f"}
    metric_titles: ClassVar[Mapping[str, str]] = {"distance": "distance of translations"}
    lower_is_better: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("encoder", "corpus")
    held_out: ClassVar[bool] = True

    benchmark: Literal["word-map"] = "word-map"

    def run(self, encoder: TextEncoder, system: System) -> Result:
        pairs = held_out_pairs(system, "dictionary")
        chosen = sorted(pairs, key=lambda code: -len(pairs[code]))[: MAX_LANGUAGES - 1]
        texts = shared_words({code: pairs[code] for code in chosen}, system.hub)
        if not texts:
            return Result({})
        paired = dict.fromkeys(chosen, system.hub) | {system.hub: chosen[0]}
        vectors = {code: encoder.for_language(code, paired[code]).encode(words) for code, words in texts.items()}
        points = project_words(texts, vectors)
        scores = {}
        for code in chosen:
            own = [point for point in points if point["language"] in (code, system.hub)]
            scores[code] = {"distance": closeness(own)}
        return Result(scores, figures={"points": points})


def shared_words(pairs: Mapping[str, Pairs], hub: str) -> dict[str, list[str]]:
    """Words of the hub that are translated into all languages, and their translations; empty if there are too few."""
    translations = {code: {target: source for source, target in own} for code, own in pairs.items()}
    candidates = next(iter(translations.values()), {})
    concepts = [word for word in candidates if all(word in own for own in translations.values())][:MAX_CONCEPTS]
    if len(concepts) < MIN_CONCEPTS:
        return {}
    return {hub: concepts} | {code: [own[word] for word in concepts] for code, own in translations.items()}


def project_words(texts: Mapping[str, list[str]], vectors: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """Words in two dimensions; translations share their `concept`."""
    from babelray.vectors.projection import project

    places = project(vectors)
    return [
        {"language": code, "concept": number, "word": word, "x": round(x, 4), "y": round(y, 4)}
        for code, words in texts.items()
        for number, (word, (x, y)) in enumerate(zip(words, places[code].tolist(), strict=True))
    ]
