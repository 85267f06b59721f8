from pathlib import Path

import pytest
import torch

from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.encoder.text_encoder import TextEncoder
from babelray.models.lexical import is_lexical
from babelray.models.mapped import is_mapped
from babelray.storage import Location
from conftest import SENTENCES

TEXTS = [*SENTENCES[:6], " ".join(SENTENCES)]


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_a_sentence_has_the_same_vector_alone_and_in_a_batch(tiny_encoder: str, pooling) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder, layer=1, batch_tokens=128)
    together = encoder.encode(TEXTS, pooling)
    for text, vector in zip(TEXTS, together, strict=True):
        assert torch.allclose(encoder.encode([text], pooling)[0], vector, atol=1e-5)


def test_against_the_model_itself(tiny_encoder: str) -> None:
    """Subwords, words and sentences of one text, from transformers' own output."""
    model, tokenizer = load_encoder(tiny_encoder), load_tokenizer(tiny_encoder)
    text = "The cat sleeps."
    hidden = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[1][0].detach()
    encoder = TextEncoder.from_model(model, tokenizer, layer=1)
    ((spans, subwords),) = encoder.subwords([text])
    assert torch.allclose(subwords, hidden[1:-1], atol=1e-6)
    assert spans.tolist() == sorted(spans.tolist()) and spans[-1].tolist() == [14, 15]
    assert torch.allclose(encoder.encode([text])[0], hidden[1:-1].mean(0), atol=1e-6)
    assert torch.allclose(encoder.encode([text], "first")[0], hidden[0], atol=1e-6)
    assert torch.allclose(encoder.encode([text], "last")[0], hidden[-2], atol=1e-6)
    ((locations, words),) = encoder.words([text], [["The", "cat", "sleeps", "."]])
    assert locations == [0, 1, 2, 3]
    inside = [i for i, (a, b) in enumerate(spans.tolist()) if a < 7 and b > 4]
    assert torch.allclose(words[1], subwords[inside].mean(0), atol=1e-6)


def test_words_beyond_the_longest_input_are_not_there(tiny_encoder: str) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    tokens = ["cat"] * 200
    (locations, vectors), (few, _) = encoder.words([" ".join(tokens), "cat"], [tokens, ["cat"]])
    assert 0 < len(locations) < 100 and locations == list(range(len(locations))) and len(vectors) == len(locations)
    assert few == [0]


def test_a_folder_is_named_by_a_path_of_any_kind(tiny_encoder: str) -> None:
    expected = TextEncoder.from_pretrained(tiny_encoder).encode(["The cat sleeps."])
    for folder in (Path(tiny_encoder), Location.parse(tiny_encoder)):
        assert torch.equal(TextEncoder.from_pretrained(folder).encode(["The cat sleeps."]), expected)
        assert not is_mapped(folder) and not is_lexical(folder)
