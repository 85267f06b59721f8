"""Tasks on words and names: their translation in context, and the concepts that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from babelray.errors import DataError
from babelray.evaluation.task import EvaluationTask, Result
from babelray.evaluation.tasks import ParallelData
from babelray.storage import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from babelray.encoder.text_encoder import TextEncoder
    from babelray.evaluation.entity_linking import Links


class EntityLinking(EvaluationTask):
    """Mentions of concepts, linked to the names of a knowledge base: XL-BEL's `{lang}_1k_test_query.txt` with UMLS."""

    main: ClassVar[str] = "p1"
    columns: ClassVar[Mapping[str, str]] = {
        "mentions": ",.0f",
        "coverage": "%",
        "p1": "%",
        "p5": "%",
        "mrr": ".3f",
    }
    task: Literal["entity-linking"] = "entity-linking"
    knowledge_base: str
    """A file of names, `CUI||name` a line, or a pattern of several; with `{lang}`, one for each language."""
    languages: list[str] | None = None
    """Only these; all that have a file by default."""
    hub: str = "en"
    """The language of the names, unless each language has its own knowledge base."""
    pooling: Literal["mean", "first", "last"] = "mean"
    layer: int | None = -1
    """The last, as in Vulić et al. (2023)."""

    @model_validator(mode="after")
    def _data_name_the_language(self) -> EntityLinking:
        if "{lang}" not in self.data:
            raise ValueError("data must have {lang} in it, which stands for a language's code")
        return self

    def _mention_files(self) -> dict[str, Place]:
        from babelray.languages import LANGUAGES

        places = {code: Place.parse(self.data.replace("{lang}", code)) for code in self.languages or LANGUAGES}
        found = {code: place for code, place in places.items() if place.is_file()}
        missing = [str(place) for code, place in places.items() if code not in found]
        if not found or (self.languages and missing):
            where = missing[0] if self.languages else self.data
            raise DataError(f"there are no mentions at {where}", "Give files such as `{lang}_1k_test_query.txt`.")
        return found

    def _names(self, code: str) -> list[Place]:
        place = Place.parse(self.knowledge_base.replace("{lang}", code))
        found = place.glob()
        if not found:
            raise DataError(f"there is no knowledge base at {place}", "Give a file with `CUI||name` a line.")
        return found

    def sources(self) -> list[Place]:
        mentions = self._mention_files()
        names = {place for code in mentions for place in self._names(code)}
        return [*mentions.values(), *sorted(names - {*mentions.values()})]

    def run(self, encoder: TextEncoder) -> Result:
        from babelray.evaluation.entity_linking import entity_linking, read_knowledge_base, read_mentions

        mentions = {code: read_mentions(place) for code, place in self._mention_files().items()}
        sharing: dict[tuple[Place, ...], list[str]] = {}
        for code in mentions:
            sharing.setdefault(tuple(self._names(code)), []).append(code)
        found: dict[str, Links] = {}
        for places, codes in sharing.items():
            names = read_knowledge_base(places)
            hub = codes[0] if "{lang}" in self.knowledge_base else self.hub
            found |= entity_linking(encoder, {code: mentions[code] for code in codes}, names, self.pooling, hub)
        return Result(
            {code: found[code].measures() for code in mentions},
            {code: found[code].predictions() for code in mentions},
        )


class ContextualBli(ParallelData):
    """Translation of words in context, from each language to the hub, on any parallel sentences."""

    main: ClassVar[str] = "p1"
    columns: ClassVar[Mapping[str, str]] = {
        "occurrences": ",.0f",
        "p1": "%",
        "p5": "%",
        "mrr": ".3f",
        "word_p1": "%",
    }
    task: Literal["contextual-bli"] = "contextual-bli"
    max_sentences: int = Field(20_000, ge=1)
    """Sentence pairs of a language, evenly from all; links between words are learned from them."""
    min_count: int = Field(2, ge=1)
    """Two words that are linked less often are not asked for."""
    occurrences_per_word: int = Field(10, ge=1)
    """So many occurrences of a word are asked for."""
    max_occurrences: int = Field(10_000, ge=1)
    """So many are asked for in all, among as many candidates."""
    csls: int = Field(10, ge=0)
    """CSLS' k; cosine if 0."""

    def run(self, encoder: TextEncoder) -> Result:
        from babelray.evaluation.contextual_bli import contextual_bli, spread, tokenised
        from babelray.text.segment import Segmenter

        found = {}
        for code, sentences, translations in self.read():
            # by ICU always: scores must not depend on what is installed
            sources = tokenised(spread(sentences, self.max_sentences), Segmenter.of(code))
            targets = tokenised(spread(translations, self.max_sentences), Segmenter.of(self.hub))
            found[code] = contextual_bli(
                encoder.speaking(code, self.hub),
                sources,
                targets,
                csls=self.csls,
                min_count=self.min_count,
                per_word=self.occurrences_per_word,
                most=self.max_occurrences,
                reader=encoder.speaking(self.hub, code),
            )
        return Result(
            {code: some.measures() for code, some in found.items()},
            {code: some.predictions() for code, some in found.items()},
        )
