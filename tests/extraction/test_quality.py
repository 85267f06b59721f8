"""In a world with a known answer, x2static finds which words are alike, and needs less text for it than aggregation."""

import copy
from collections import Counter

import pytest

from babelray.encoder.layers import LayerReader
from babelray.encoder.scratch import random_encoder, train_tokenizer
from babelray.extraction.language import LanguageExtraction
from babelray.extraction.method import EXTRACTION_METHODS
from babelray.extraction.occurrences import Sentence
from babelray.recipe.encoder import ScratchConfig
from babelray.simulation.world import World, neighbour_precision
from support.extraction import encode_sentences

pytestmark = pytest.mark.integration  # trains for seconds

SETTINGS = {
    "aggregate": {"method": "aggregate"},
    "x2static": {"min_steps": 1000, "subsample": None},
    "x2static, shared negatives": {"min_steps": 1000, "subsample": None, "shared_negatives": 64},
    "x2static, from aggregate": {"min_steps": 1000, "subsample": None, "start": "aggregate"},
}


@pytest.mark.parametrize("number", [0, 1])
def test_neighbours_are_of_the_same_class(number: int) -> None:
    world = World.make()
    sentences = [Sentence(" ".join(words), words) for words in world.sentences(number, 1000, seed=7)]
    vocabulary = Counter(word for sentence in sentences for word in sentence.tokens)
    config = ScratchConfig(
        vocabulary=1200, width=64, layers=2, heads=2, max_tokens=64, training={"objectives": [{"kind": "mlm"}]}
    )
    tokenizer = train_tokenizer((sentence.text for sentence in sentences), config.vocabulary, config.max_tokens)
    encoder = random_encoder(config, len(tokenizer), seed=0).base_model.eval()
    class_of = world.class_of(number)
    precision = {}
    for name, settings in SETTINGS.items():
        reader = LayerReader(copy.deepcopy(encoder), [1])
        extraction = LanguageExtraction(EXTRACTION_METHODS.parse(settings), reader, tokenizer, vocabulary, 1, seed=1)
        block = encode_sentences(extraction, 0, sentences)
        vectors = extraction.combine(lambda block=block: [block], 1)
        precision[name] = neighbour_precision(vectors.matrix, [class_of[word] for word in vectors.words])
    assert precision["aggregate"] < 0.3
    assert precision["x2static"] > 0.8 and precision["x2static, from aggregate"] > 0.8, precision
    assert precision["x2static, shared negatives"] > 0.6, "cheaper, and worse: not the default"
