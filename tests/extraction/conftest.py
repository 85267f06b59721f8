import pytest

from babelray.encoder.layers import LayerReader
from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.extraction.language import LanguageExtraction
from babelray.extraction.method import EXTRACTION_METHODS
from support.extraction import TEXTS, tokenize


@pytest.fixture
def language(tiny_encoder: str):
    """Make a language's extraction from settings; all words of the texts are in the vocabulary."""

    def make(
        vocabulary: dict[str, int] | None = None, layers: tuple[int, ...] = (1,), **settings
    ) -> LanguageExtraction:
        reader = LayerReader(load_encoder(tiny_encoder), layers)
        words = [token.lower() for sentence in tokenize(TEXTS) for token in sentence.tokens if token.isalpha()]
        vocabulary = vocabulary or {word: words.count(word) for word in dict.fromkeys(words)}
        method = EXTRACTION_METHODS.parse(settings)
        return LanguageExtraction(method, reader, load_tokenizer(tiny_encoder), vocabulary, layers[0], seed=1)

    return make
