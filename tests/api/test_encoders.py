"""Encoders from Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import babelray as br
from babelray.encoder.layers import LayerReader
from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import BabelrayError
from babelray.mapping.linear import LinearMapping
from babelray.models.mapped import Sides, save_mapped
from babelray.storage import Location

TEXTS = ["The cat sleeps.", "Ein Hund läuft im großen Garten.", "warm"]


@pytest.mark.parametrize("layer", [-1, 0, 1])
@pytest.mark.parametrize("pooling", ["mean", "first", "last", "all"])
def test_sentences(tiny_encoder: str, layer: int, pooling) -> None:
    own = br.load_encoder(tiny_encoder, layer).encode(TEXTS, pooling=pooling)
    assert torch.equal(own, TextEncoder.from_pretrained(tiny_encoder, layer).encode(TEXTS, pooling))


def test_one_sentence_is_a_vector_and_none_is_an_empty_matrix(tiny_encoder: str) -> None:
    encoder = br.load_encoder(tiny_encoder)
    assert torch.allclose(encoder.encode(TEXTS[0]), encoder.encode(TEXTS[:1])[0])
    assert encoder.encode([]).shape == (0, 32) and encoder.encode_words([]).shape == (0, 32)
    assert repr(encoder) == f"Encoder({tiny_encoder!r}, layer=-1)"


def test_words_are_the_means_over_all_tokens(tiny_encoder: str) -> None:
    model, tokenizer = load_encoder(tiny_encoder), load_tokenizer(tiny_encoder)
    reader = LayerReader(model, [2])
    vectors = br.load_encoder(tiny_encoder).encode_words(["cat", "Garten"], language="de")
    for word, vector in zip(["cat", "Garten"], vectors, strict=True):
        encoded = tokenizer([word], return_tensors="pt")
        hidden = reader.highest(encoded["input_ids"], encoded["attention_mask"])[0]
        assert torch.allclose(vector, hidden.mean(0), atol=1e-6)


def test_a_mapped_encoder_needs_the_language(tiny_encoder: str, tmp_path: Path) -> None:
    plain = br.load_encoder(tiny_encoder, 1).encode(TEXTS)
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0))).Q
    mapping = LinearMapping(torch.zeros(32), turn, unit=False)
    save_mapped(Location.parse(tmp_path / "m"), Location.parse(tiny_encoder), 1, "en", {"de": Sides(mapping)})
    encoder = br.load_encoder(tmp_path / "m")
    assert torch.allclose(encoder.encode(TEXTS, language="de"), plain @ turn, atol=1e-5)
    assert torch.allclose(encoder.encode(TEXTS, language="en"), plain, atol=1e-6)
    assert torch.allclose(encoder.encode(TEXTS, language="en", paired_with="de"), plain, atol=1e-6)
    with pytest.raises(BabelrayError, match="needs the language"):
        encoder.encode(TEXTS)
    with pytest.raises(BabelrayError, match="no mapping for 'fr'"):
        encoder.encode_words(["chat"], language="fr")


def test_what_cannot_be_loaded(tiny_encoder: str) -> None:
    with pytest.raises(BabelrayError, match="cannot load the encoder nowhere"):
        br.load_encoder("nowhere")
    with pytest.raises(BabelrayError, match="there is no layer 5"):
        br.load_encoder(tiny_encoder, layer=5)
