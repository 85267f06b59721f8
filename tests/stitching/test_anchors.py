"""Which pairs become anchors."""

import pytest
import torch

from babelray.encoder.load import load_tokenizer
from babelray.errors import DataError
from babelray.stitching.anchors import confidence, find_anchors, whole_words
from babelray.stitching.config import AnchorConfig
from babelray.vectors.word_vectors import WordVectors
from stitching_language import turn

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


def found(**settings: object) -> list[tuple[str, str]]:
    return find_anchors(PAIRS, PIECES, TARGET, HUB, AnchorConfig(**settings)).pairs


def test_words_that_both_sides_have_with_their_first_translation() -> None:
    anchors = find_anchors(PAIRS, PIECES, TARGET, HUB, AnchorConfig())
    assert anchors.pairs == [("sie", "she"), ("Hund", "dog"), ("ufer", "bank"), ("bank", "bank"), ("die", "the")]
    assert anchors.rows_A.tolist() == [0, 1, 3, 2, 5] and anchors.pieces_A.tolist() == [12, 13, 14, 14, 10]


def test_a_vector_of_zeros_is_no_anchor() -> None:
    assert "leer" not in dict(found())


def test_of_several_translations_the_most_frequent_or_only_the_mutual() -> None:
    assert dict(found(policy="frequent"))["sie"] == "you"
    assert found(policy="mutual") == [("sie", "she"), ("Hund", "dog"), ("ufer", "bank"), ("die", "the")]


def test_stop_words_are_left_out() -> None:
    assert "die" not in dict(found(skip_frequent=1)) and "die" in dict(found())


def test_some_are_drawn_by_the_seed() -> None:
    assert len(found(count=3)) == 3 and set(found(count=3)) < set(found()) and found(count=3) == found(count=3)
    drawn = {tuple(find_anchors(PAIRS, PIECES, TARGET, HUB, AnchorConfig(count=3), seed).pairs) for seed in range(10)}
    assert len(drawn) > 1 and len(found(count=99)) == len(found())


def test_wrong_pairs_are_found_by_their_confidence() -> None:
    """A world in which the target is a rotation of the hub, and a dictionary of which a tenth is wrong."""
    generator = torch.Generator().manual_seed(0)
    words = [f"w{i}" for i in range(300)]
    hub = WordVectors(words, torch.randn(300, 10, generator=generator), [1] * 300)
    target = WordVectors(words, hub.matrix @ turn(10), [1] * 300)
    wrong = [(f"w{i}", f"w{(i + 7) % 300}") for i in range(0, 300, 10)]
    right = [(word, word) for i, word in enumerate(words) if i % 10]
    pieces = {word: i for i, word in enumerate(words)}
    kept = find_anchors(right + wrong, pieces, target, hub, AnchorConfig(min_confidence=0.0)).pairs
    assert set(right) <= set(kept) and len(set(kept) & set(wrong)) <= 3
    best = find_anchors(right + wrong, pieces, target, hub, AnchorConfig(min_confidence=-9.0, count=270)).pairs
    assert set(best) == set(right)


def test_confidence_is_csls_after_the_rotation() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(30, 5, generator=generator))
    cosine = x @ x.T
    near = cosine.topk(10, 1).values.mean(1)
    assert torch.allclose(confidence(x @ turn(5), x), 2 - 2 * near, atol=1e-4)


def test_too_few_to_tell_words_apart() -> None:
    with pytest.raises(DataError, match="none of 1 translation pairs"):
        find_anchors([("hund", "hound")], PIECES, TARGET, HUB, AnchorConfig())
    with pytest.raises(DataError, match="none of 0 translation pairs"):
        find_anchors([], PIECES, TARGET, HUB, AnchorConfig())
    with pytest.raises(DataError, match="1 anchor, of 1 pairs"):
        find_anchors([("hund", "dog")], PIECES, TARGET, HUB, AnchorConfig())
    with pytest.raises(DataError, match="0 anchors, of 6 pairs"):
        found(skip_frequent=5)
    narrow = WordVectors(HUB.words, torch.eye(5)[:, :3], HUB.counts)
    with pytest.raises(DataError, match="6 and 3 dimensions"):
        find_anchors(PAIRS, PIECES, TARGET, narrow, AnchorConfig(min_confidence=0.0))


def test_words_are_whole_in_either_kind_of_tokenizer(language, tiny_encoder: str) -> None:
    tokenizer = language.source.tokenizer
    number = tokenizer.convert_tokens_to_ids("baln")
    assert whole_words(tokenizer, ["baln", "balns", "unheard"]) == {"baln": number}
    pieces = load_tokenizer(tiny_encoder)
    whole = whole_words(pieces, ["the", "Katze", "schläft", "xylophone"])
    assert "xylophone" not in whole and whole
    assert all(pieces.convert_ids_to_tokens(number) == f"▁{word}" for word, number in whole.items())
    assert whole_words(pieces, []) == {}
