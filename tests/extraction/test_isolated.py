import pytest
import torch

from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.errors import DataError
from babelray.extraction.method import PreparedBlock


def test_same_as_each_word_alone(tiny_encoder: str, language) -> None:
    extraction = language({"cat": 5, "ᚠᚢᚦ": 4, "garden": 3, "the": 1}, (1, 2), method="isolated", batch_tokens=64)
    prepared = [PreparedBlock(number, 3 * number, 3) for number in (0, 1)]
    blocks = [extraction.encode(block) for block in prepared]
    assert prepared[0].counts + prepared[1].counts == {"words": 3, "words without known subwords": 1}
    model, tokenizer = load_encoder(tiny_encoder), load_tokenizer(tiny_encoder)
    for layer in (1, 2):
        vectors = extraction.combine(lambda: blocks, layer)
        assert vectors.words == ["cat", "garden", "the"] and vectors.counts == [5, 3, 1]
        for word in vectors.words:
            with torch.no_grad():
                hidden = model(**tokenizer(word, return_tensors="pt"), output_hidden_states=True).hidden_states[layer]
            assert torch.allclose(vectors.matrix[vectors.position[word]], hidden[0].mean(0), atol=1e-5)


def test_no_word_is_known(language) -> None:
    extraction = language({"ᚠᚢᚦ": 4}, method="isolated")
    with pytest.raises(DataError, match="knows no word"):
        extraction.combine(lambda: [extraction.encode(PreparedBlock(0, 0, 1))], 1)
