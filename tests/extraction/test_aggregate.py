import torch

from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.extraction.aggregate import aggregate
from babelray.text.segment import Segmenter
from conftest import SENTENCES

TEXTS = [SENTENCES[0], SENTENCES[1], "The cat is a cat ."]


def by_definition(model, tokenizer, word: str, layer: int) -> torch.Tensor:
    """The mean over occurrences of the mean over subwords, one sentence at a time."""
    occurrences = []
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            hidden = model(**encoded, output_hidden_states=True).hidden_states[layer][0]
        start = text.lower().find(word)
        while start >= 0:
            end = start + len(word)
            rows = [i for i, (a, b) in enumerate(offsets) if max(a, start) < min(b, end)]
            occurrences.append(hidden[rows].mean(0))
            start = text.lower().find(word, end)
    return torch.stack(occurrences).mean(0)


def test_same_as_the_definition(tiny_encoder: str) -> None:
    model, tokenizer = load_encoder(tiny_encoder), load_tokenizer(tiny_encoder)
    segmenter = Segmenter.of("en")
    tokens = [segmenter.tokens(text) for text in TEXTS]
    vocabulary = {"the": 5, "cat": 3, "garden": 1, "absent": 1}
    calls: list[int] = []
    for budget in (30, 10_000):
        vectors = aggregate(model, tokenizer, TEXTS, tokens, vocabulary, 1, budget, calls.append)
        assert vectors.words == ["the", "cat", "garden"], "a word that never occurs has no vector"
        assert vectors.counts == [4, 3, 1]
        for word in ("cat", "garden"):
            expected = by_definition(model, tokenizer, word, 1)
            assert torch.allclose(vectors.matrix[vectors.position[word]], expected, atol=1e-5)
    assert calls[-1] == 3
