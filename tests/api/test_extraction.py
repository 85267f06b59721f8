"""Static vectors from sentences in memory: the same as those of a run."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import babelray as br
from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import BabelrayError
from babelray.text.segment import Segmenter
from conftest import SENTENCES

TEXTS = [*SENTENCES[:2], "The cat is a cat ."]


def tokens(text: str) -> list[str]:
    return Segmenter.for_language("en").tokens(text)


def test_aggregated_vectors_are_means_over_occurrences(tiny_encoder: str) -> None:
    vectors = br.extract(tiny_encoder, TEXTS, "en", "aggregate", progress=False)
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    occurrences: dict[str, list[torch.Tensor]] = {}
    for text in TEXTS:
        for words, matrix in [encoder.words([text], [tokens(text)])[0]]:
            for i, vector in zip(words, matrix, strict=True):
                occurrences.setdefault(tokens(text)[i].lower(), []).append(vector)
    assert vectors.words[0] == "the" and "." not in vectors
    counts = Counter(token.lower() for text in TEXTS for token in tokens(text))
    for word, count in zip(vectors.words, vectors.counts, strict=True):
        assert count == counts[word] == len(occurrences[word])
        assert torch.allclose(vectors[word], torch.stack(occurrences[word]).mean(0), atol=1e-5)


@pytest.mark.parametrize("method", ["aggregate", "x2static"])
def test_blocks_make_no_difference(tiny_encoder: str, method: str) -> None:
    settings = {"min_steps": 20, "subsample": None, "batch_size": 4} if method == "x2static" else {}
    whole, in_blocks = (
        br.extract(tiny_encoder, TEXTS, "en", method, progress=False, block_sentences=size, **settings)
        for size in (4096, 2)
    )
    assert whole.words == in_blocks.words and whole.counts == in_blocks.counts
    assert method == "x2static" or torch.allclose(whole.matrix, in_blocks.matrix, atol=1e-5)
    again = br.extract(br.load_encoder(tiny_encoder), iter(TEXTS), "en", method, progress=False, **settings)
    assert torch.equal(again.matrix, whole.matrix)


def test_isolated_words_are_encoded_alone(tiny_encoder: str) -> None:
    vectors = br.extract(tiny_encoder, TEXTS, "en", "isolated", progress=False)
    assert torch.allclose(vectors.matrix, br.load_encoder(tiny_encoder).encode_words(vectors.words), atol=1e-5)


def test_the_layer_is_that_of_the_encoder_unless_it_is_set(tiny_encoder: str) -> None:
    of_encoder = br.extract(br.load_encoder(tiny_encoder, 1), TEXTS, "en", "aggregate", progress=False)
    set_here = br.extract(tiny_encoder, TEXTS, "en", "aggregate", layer=1, progress=False)
    last = br.extract(tiny_encoder, TEXTS, "en", "aggregate", progress=False)
    assert torch.equal(of_encoder.matrix, set_here.matrix) and not torch.allclose(last.matrix, set_here.matrix)


def test_min_count(tiny_encoder: str) -> None:
    vectors = br.extract(tiny_encoder, TEXTS, "en", "aggregate", min_count=2, progress=False)
    assert set(vectors.words) == {"the", "cat", "a"}


def test_what_is_left_out_is_said(tiny_encoder: str) -> None:
    with pytest.warns(UserWarning) as warnings:
        br.extract(tiny_encoder, [" ".join(["The cat sleeps."] * 40)], "en", "aggregate", progress=False)
    assert "en: 1 sentences were longer than the encoder allows, and split" in map(str, [w.message for w in warnings])


def test_errors(tiny_encoder: str) -> None:
    with pytest.raises(BabelrayError, match="not a list of sentences"):
        br.extract(tiny_encoder, "The cat sleeps.", "en")
    with pytest.raises(BabelrayError, match="no word occurs 9 times"):
        br.extract(tiny_encoder, TEXTS, "en", min_count=9)
    with pytest.raises(BabelrayError, match="workers is for runs"):
        br.extract(tiny_encoder, TEXTS, "en", workers=3)
    with pytest.raises(BabelrayError, match="needs no encoder"):
        br.extract(tiny_encoder, TEXTS, "en", "given", path="{lang}.vec")
    with pytest.raises(BabelrayError, match="did you mean 'aggregate'"):
        br.extract(tiny_encoder, TEXTS, "en", "agregate")
    with pytest.raises(BabelrayError, match="unknown language 'xx'"):
        br.extract(tiny_encoder, TEXTS, "xx")
