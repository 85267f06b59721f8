"""Which pairs become anchors."""

import pytest
import torch

from babelray.encoder.load import load_tokenizer
from babelray.errors import DataError
from babelray.stitching.anchors import AnchorConfig, confidence, find_anchors, single_piece_words
from babelray.vectors.word_vectors import WordVectors
from support.stitching_language import random_rotation

HUB = WordVectors(["the", "you", "she", "dog", "bank"], torch.eye(5), [5, 4, 3, 2, 1])
TARGET = WordVectors(["sie", "Hund", "bank", "ufer", "leer", "die"], torch.eye(6), [1] * 6)
TARGET.matrix[4] = 0
PIECES = {"the": 10, "you": 11, "she": 12, "dog": 13, "bank": 14}
PAIRS = [
    ("sie", "she"),
    ("sie", "you"),
    ("hund", "dog"),
    ("ufer", "bank"),
    ("bank", "bank"),
    ("leer", "the"),
    ("die", "the"),
    ("katze", "dog"),
    ("hund", "hound"),
]


def anchor_pairs(**settings: object) -> list[tuple[str, str]]:
    return find_anchors(PAIRS, PIECES, TARGET, HUB, AnchorConfig(**settings)).pairs


def test_words_that_both_sides_have_with_their_first_translation() -> None:
    anchors = find_anchors(PAIRS, PIECES, TARGET, HUB, AnchorConfig())
    assert anchors.pairs == [("sie", "she"), ("Hund", "dog"), ("ufer", "bank"), ("bank", "bank"), ("die", "the")]
    assert anchors.rows_A.tolist() == [0, 1, 3, 2, 5] and anchors.pieces_A.tolist() == [12, 13, 14, 14, 10]


def test_a_vector_of_zeros_is_no_anchor() -> None:
    assert "leer" not in dict(anchor_pairs())


def test_of_several_translations_the_most_frequent_or_only_the_mutual() -> None:
    assert dict(anchor_pairs(policy="frequent"))["sie"] == "you"
    assert anchor_pairs(policy="mutual") == [("sie", "she"), ("Hund", "dog"), ("ufer", "bank"), ("die", "the")]


def test_stop_words_are_left_out() -> None:
    assert "die" not in dict(anchor_pairs(skip_frequent=1)) and "die" in dict(anchor_pairs())


def test_a_sample_depends_on_the_seed() -> None:
    assert (
        len(anchor_pairs(count=3)) == 3
        and set(anchor_pairs(count=3)) < set(anchor_pairs())
        and anchor_pairs(count=3) == anchor_pairs(count=3)
    )
    samples = {tuple(find_anchors(PAIRS, PIECES, TARGET, HUB, AnchorConfig(count=3), seed).pairs) for seed in range(10)}
    assert len(samples) > 1 and len(anchor_pairs(count=99)) == len(anchor_pairs())


def test_confidence_drops_wrong_pairs() -> None:
    """A world in which the target is a rotation of the hub, and a dictionary of which a tenth is wrong."""
    generator = torch.Generator().manual_seed(0)
    words = [f"w{i}" for i in range(300)]
    hub = WordVectors(words, torch.randn(300, 10, generator=generator), [1] * 300)
    target = WordVectors(words, hub.matrix @ random_rotation(10), [1] * 300)
    wrong = [(f"w{i}", f"w{(i + 7) % 300}") for i in range(0, 300, 10)]
    right = [(word, word) for i, word in enumerate(words) if i % 10]
    pieces = {word: i for i, word in enumerate(words)}
    confident = find_anchors(right + wrong, pieces, target, hub, AnchorConfig(min_confidence=0.0)).pairs
    assert set(right) <= set(confident) and len(set(confident) & set(wrong)) <= 3
    best = find_anchors(right + wrong, pieces, target, hub, AnchorConfig(min_confidence=-9.0, count=270)).pairs
    assert set(best) == set(right)


def test_confidence_is_csls_after_the_rotation() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(30, 5, generator=generator))
    cosine = x @ x.T
    near = cosine.topk(10, 1).values.mean(1)
    assert torch.allclose(confidence(x @ random_rotation(5), x), 2 - 2 * near, atol=1e-4)


def test_too_few_anchors_are_an_error() -> None:
    with pytest.raises(DataError, match="none of 1 translation pairs"):
        find_anchors([("hund", "hound")], PIECES, TARGET, HUB, AnchorConfig())
    with pytest.raises(DataError, match="none of 0 translation pairs"):
        find_anchors([], PIECES, TARGET, HUB, AnchorConfig())
    with pytest.raises(DataError, match="1 anchor, of 1 pairs"):
        find_anchors([("hund", "dog")], PIECES, TARGET, HUB, AnchorConfig())
    with pytest.raises(DataError, match="0 anchors, of 6 pairs"):
        anchor_pairs(skip_frequent=5)
    narrow = WordVectors(HUB.words, torch.eye(5)[:, :3], HUB.counts)
    with pytest.raises(DataError, match="6 and 3 dimensions"):
        find_anchors(PAIRS, PIECES, TARGET, narrow, AnchorConfig(min_confidence=0.0))


def test_words_of_one_piece_in_both_kinds_of_tokenizer(language, tiny_encoder: str) -> None:
    tokenizer = language.source.tokenizer
    number = tokenizer.convert_tokens_to_ids("baln")
    assert single_piece_words(tokenizer, ["baln", "balns", "unheard"]) == {"baln": number}
    pieces = load_tokenizer(tiny_encoder)
    ids = single_piece_words(pieces, ["the", "Katze", "schläft", "xylophone"])
    assert "xylophone" not in ids and ids
    assert all(pieces.convert_ids_to_tokens(number) == f"▁{word}" for word, number in ids.items())
    assert single_piece_words(pieces, []) == {}
