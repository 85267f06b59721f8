"""The tasks that an encoder is judged by without further training, each on data in its published format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from babelray.errors import DataError
from babelray.evaluation.task import EvaluationTask, Result
from babelray.languages import LANGUAGES, Language, resolve
from babelray.storage import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from babelray.encoder.text_encoder import TextEncoder
    from babelray.evaluation.tatoeba import ParallelSentences
    from babelray.evaluation.word_alignment import GoldPair


class ParallelData(EvaluationTask):
    """A task on parallel sentences: see `tatoeba.read_parallel` for the layouts."""

    hub: str = "en"
    languages: list[str] | None = None
    """Only these; all that there are by default."""
    extra_languages: list[Language] = Field(default_factory=list)
    """Languages beyond the 40, or other settings for one of them, as in a recipe."""
    where: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """For tables: only rows whose numbers in these columns lie between the two, both included."""

    def sources(self) -> list[Place]:
        place = Place.parse(self.data)
        return [place / name for name in place.files()] if place.exists() and not place.is_file() else place.glob()

    def read(self) -> list[ParallelSentences]:
        from babelray.evaluation.tatoeba import read_parallel

        known = LANGUAGES | {language.code: language for language in self.extra_languages}
        known = known if self.languages is None else resolve(self.languages, self.extra_languages)
        return list(read_parallel(Place.parse(self.data), self.hub, known, self.where))


class Tatoeba(ParallelData):
    """Sentence retrieval with the hub: Tatoeba, or any parallel sentences."""

    main: ClassVar[str] = "mean"
    columns: ClassVar[Mapping[str, str]] = {
        "sentences": ",.0f",
        "to_hub": "%",
        "from_hub": "%",
        "mean": "%",
        "mean_margin": ".3f",
    }
    task: Literal["tatoeba"] = "tatoeba"
    scoring: Literal["cosine", "csls", "margin"] = "cosine"
    pooling: Literal["mean", "first", "last"] = "mean"

    def run(self, encoder: TextEncoder) -> Result:
        from babelray.evaluation.retrieval import retrieval_task

        found = retrieval_task(encoder, self.read(), self.scoring, self.pooling, hub=self.hub)
        return Result(
            {code: some.scores for code, some in found.items()},
            {code: some.answers.predictions() for code, some in found.items()},
        )


class WordAlignment(EvaluationTask):
    """Links between the words of sentence pairs, against those that people made: `NAME.src-tgt` with `NAME.gold`."""

    main: ClassVar[str] = "f1"
    columns: ClassVar[Mapping[str, str]] = {
        "pairs": ",.0f",
        "precision": "%",
        "recall": "%",
        "f1": "%",
        "aer": "%",
    }
    task: Literal["word-alignment"] = "word-alignment"
    method: Literal["argmax", "itermax", "match"] = "itermax"
    level: Literal["words", "subwords"] = "subwords"
    one_based: bool = False
    """Whether positions in the gold files count from 1."""
    pairs: dict[str, tuple[str, str]] | None = None
    """Only these files, by NAME, and the languages of source and target: `{enfr: [en, fr]}`. All by default; languages,
    which only an encoder that maps them asks for, are then told by names such as `enfr` or `en-fr`."""

    def _names(self) -> list[str]:
        names = Place.parse(self.data).files() if Place.parse(self.data).exists() else []
        found = [name.removesuffix(".gold") for name in names if name.endswith(".gold")]
        found = [name for name in found if f"{name}.src-tgt" in names]
        if missing := [name for name in self.pairs or {} if name not in found]:
            raise DataError(f"no gold alignments {missing[0]} in {self.data}", f"There are: {', '.join(found)}.")
        found = [name for name in found if self.pairs is None or name in self.pairs]
        if not found:
            raise DataError(
                f"no gold alignments in {self.data}",
                "Give a folder with files `NAME.src-tgt` (`source ||| target` a line) and `NAME.gold` (`0-0 1?2`).",
            )
        return found

    def sources(self) -> list[Place]:
        return [Place.parse(self.data) / f"{name}.{end}" for name in self._names() for end in ("src-tgt", "gold")]

    def read(self) -> dict[str, list[GoldPair]]:
        from babelray.evaluation.word_alignment import read_pharaoh

        folder = Place.parse(self.data)
        return {
            name: read_pharaoh(folder / f"{name}.src-tgt", folder / f"{name}.gold", self.one_based)
            for name in self._names()
        }

    def run(self, encoder: TextEncoder) -> Result:
        from babelray.evaluation.word_alignment import align_pairs, alignment_scores

        scores, predictions = {}, {}
        for name, gold in self.read().items():
            source, target = (self.pairs or {}).get(name) or languages_of(name)
            readers = encoder.speaking(source, target), encoder.speaking(target, source)
            pairs = [(pair.source, pair.target) for pair in gold]
            found = align_pairs(readers[0], pairs, self.method, self.level, readers[1])
            scores[name] = {**alignment_scores(found.links, gold), "unread": found.unread}
            predictions[name] = [" ".join(f"{i}-{j}" for i, j in links) for links in found.links]
        return Result(scores, predictions)


def languages_of(name: str) -> tuple[str, str]:
    """The languages that the name of a file stands for; the name itself, twice, if it cannot be cut in two.

    >>> languages_of("enfr"), languages_of("deu-eng"), languages_of("2017")
    (('en', 'fr'), ('deu', 'eng'), ('2017', '2017'))
    """
    found = re.fullmatch("([a-z]{2,3})[-_]?([a-z]{2,3})", name)
    return (found[1], found[2]) if found else (name, name)


class MtQuality(EvaluationTask):
    """How well distances between a source and its translation agree with people's judgements: WMT's `testset_*.tsv`."""

    main: ClassVar[str] = "pearson"
    columns: ClassVar[Mapping[str, str]] = {
        "segments": ",.0f",
        "pearson": ".3f",
        "kendall": ".3f",
        "spearman": ".3f",
        "bleu_pearson": ".3f",
    }
    task: Literal["mt-quality"] = "mt-quality"
    ngram: int = Field(1, ge=1)
    idf: bool = False
    solver: Literal["exact", "sinkhorn"] = "exact"

    def sources(self) -> list[Place]:
        place = Place.parse(self.data)
        found = place.glob() if place.is_file() or not place.exists() else (place / "testset_*.tsv").glob()
        if not found:
            raise DataError(f"no segments with human scores at {place}", "Give `testset_de-en.tsv` or its folder.")
        return found

    def run(self, encoder: TextEncoder) -> Result:
        from babelray.evaluation.mt_quality import correlations, mt_scores, read_segments

        scores, predictions = {}, {}
        for place in self.sources():
            segments = read_segments(place)
            source, _, target = segments[0].pair.partition("-")
            found = mt_scores(
                encoder.speaking(source, target),
                [segment.source for segment in segments],
                [segment.translation for segment in segments],
                ngram=self.ngram,
                idf=self.idf,
                solver=self.solver,
                reader=encoder.speaking(target, source),
            ).tolist()
            human = [segment.human for segment in segments]
            scores[segments[0].pair] = {"segments": len(segments), **correlations(found, human)}
            bleu = [segment.bleu for segment in segments if segment.bleu is not None]
            if len(bleu) == len(human):
                scores[segments[0].pair]["bleu_pearson"] = correlations(bleu, human)["pearson"]
            predictions[segments[0].pair] = [round(score, 6) for score in found]
        return Result(scores, predictions)


class Geometry(ParallelData):
    """What the space of parallel sentences looks like: can the language be told, how alike are two, their hubs."""

    main: ClassVar[str] = "language_told"
    columns: ClassVar[Mapping[str, str]] = {
        "language_told": "%",
        "gap": ".1f",
        "eigenvector_distance": ".1f",
        "hubness": ".2f",
        "mean_cosine": ".3f",
        "isoscore": ".3f",
    }
    task: Literal["geometry"] = "geometry"
    seed: int = 1

    def run(self, encoder: TextEncoder) -> Result:
        from babelray.evaluation.geometry import (
            anisotropy,
            eigenvector_similarity,
            hubness,
            language_identification,
            singular_value_gap,
        )

        pairs = self.read()
        vectors = {code: encoder.speaking(code, self.hub).sentences(sentences) for code, sentences, _ in pairs}
        told = language_identification(vectors, seed=self.seed)["by_language"] if len(vectors) > 1 else {}
        scores: dict[str, dict[str, float]] = {}
        hubs: dict[tuple[Any, ...], Tensor] = {}
        for code, sentences, translations in pairs:
            reader = encoder.speaking(self.hub, code)
            if (reader, *translations) not in hubs:
                hubs[reader, *translations] = reader.sentences(translations)
            x_ND, z_ND = vectors[code], hubs[reader, *translations]
            space = anisotropy(x_ND)
            scores[code] = {
                "sentences": len(sentences),
                "language_told": told.get(code, 0.0),
                "gap": singular_value_gap(x_ND, z_ND)["gap"],
                "eigenvector_distance": eigenvector_similarity(x_ND, z_ND),
                "hubness": hubness(x_ND, z_ND, k=min(10, len(z_ND) - 1))["skewness"],
                "mean_cosine": space["mean_cosine"],
                "isoscore": space["isoscore"],
            }
        return Result(scores)
