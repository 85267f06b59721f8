from collections import Counter

import pytest
import torch

from babelray.encoder.layers import LayerReader
from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.extraction.config import ExtractConfig
from babelray.extraction.language import LanguageExtraction
from babelray.extraction.occurrences import Sentence
from babelray.text.segment import Segmenter
from conftest import SENTENCES

TEXTS = [SENTENCES[0], SENTENCES[1], "The cat is a cat .", SENTENCES[2]]


def cut(texts: list[str]) -> list[Sentence]:
    return [Sentence(text, Segmenter.of("en").tokens(text)) for text in texts]


def read(language: LanguageExtraction, number: int, sentences: list[Sentence], *more) -> dict[str, torch.Tensor]:
    """A block of a language, from its sentences."""
    return language.block(number, language.prepare(sentences, Counter()), *more)


@pytest.fixture
def language(tiny_encoder: str):
    """Make a language's extraction from settings; all words of the texts are in the vocabulary."""

    def make(
        vocabulary: dict[str, int] | None = None, layers: tuple[int, ...] = (1,), **settings
    ) -> LanguageExtraction:
        reader = LayerReader(load_encoder(tiny_encoder), layers)
        words = [token.lower() for sentence in cut(TEXTS) for token in sentence.tokens if token.isalpha()]
        vocabulary = vocabulary or {word: words.count(word) for word in dict.fromkeys(words)}
        config = ExtractConfig.model_validate(settings)
        return LanguageExtraction(config, reader, load_tokenizer(tiny_encoder), vocabulary, layers[0], seed=1)

    return make
