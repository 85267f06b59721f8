import pytest
import torch

from babelray.metrics.bli import bli, rank_translations
from babelray.vectors.word_vectors import WordVectors

EYE = torch.eye(4)
SOURCE = WordVectors(["eins", "zwei", "drei", "vier"], EYE, [4, 3, 2, 1])


def test_a_perfect_space() -> None:
    target = WordVectors(["two", "one", "four", "three"], EYE[[1, 0, 3, 2]], [1] * 4)
    pairs = [("eins", "one"), ("zwei", "two"), ("drei", "three"), ("vier", "four")]
    perfect = {"p1": 1.0, "p5": 1.0, "p10": 1.0, "mrr": 1.0}
    assert bli(SOURCE, target, pairs) == perfect | {"nn": perfect, "words": 4, "coverage": 1.0, "chance": 0.25}


def test_ranks_alternatives_and_coverage() -> None:
    target = WordVectors(["one", "two", "a"], torch.stack([EYE[0], EYE[0] + EYE[1], EYE[1]]), [1] * 3)
    pairs = [("eins", "two"), ("zwei", "two"), ("zwei", "a"), ("fünf", "five"), ("drei", "unknown")]
    scores = bli(SOURCE, target, pairs, csls=1)
    # "eins" finds "one" first and "two" second; "zwei" finds one of its two translations; two words cannot be asked.
    assert scores["words"] == 2 and scores["coverage"] == 0.5
    assert scores["chance"] == (1 / 3 + 2 / 3) / 2
    assert scores["p1"] == 0.5 and scores["p5"] == 1.0 and scores["mrr"] == pytest.approx(0.75)


def test_csls_finds_what_a_hub_hides_from_the_nearest_neighbour() -> None:
    """`all` lies near every word; CSLS takes that from it."""
    generator = torch.Generator().manual_seed(0)
    source = torch.nn.functional.normalize(torch.randn(40, 50, generator=generator).abs())
    middle = source.mean(0)
    target = torch.cat([source + 0.1 * torch.randn(40, 50, generator=generator), middle[None]])
    words = [f"w{i}" for i in range(40)]
    left, right = WordVectors(words, source, [1] * 40), WordVectors([*words, "all"], target, [1] * 41)
    scores = bli(left, right, [(word, word) for word in words])
    assert scores["p1"] > scores["nn"]["p1"] + 0.1
    assert scores["p1"] <= scores["p5"] <= scores["p10"]
    inverted = bli(left, right, [(word, word) for word in words], inverted_softmax=30.0)
    assert inverted["isf"]["p1"] > scores["nn"]["p1"] + 0.1
    expected = torch.nn.functional.normalize(source) @ torch.nn.functional.normalize(target).T
    assert scores["nn"]["p1"] == pytest.approx((expected.argmax(1) == torch.arange(40)).float().mean().item())


def test_nothing_to_ask() -> None:
    assert bli(SOURCE, SOURCE, [("x", "y")])["words"] == 0


def test_hits_are_those_of_the_words_that_can_be_asked() -> None:
    target = WordVectors(["one", "three", "two"], EYE[:3], [1] * 3)
    ranks = rank_translations(SOURCE, target, [("drei", "two"), ("fünf", "five"), ("zwei", "two"), ("eins", "one")])
    assert ranks.hits == [1, 0, 1] and ranks.scores["p1"] == pytest.approx(2 / 3)
