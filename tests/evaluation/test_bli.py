import pytest
import torch

from babelray.evaluation.bli import bli
from babelray.vectors.word_vectors import WordVectors

EYE = torch.eye(4)
SOURCE = WordVectors(["eins", "zwei", "drei", "vier"], EYE, [4, 3, 2, 1])


def test_a_perfect_space() -> None:
    target = WordVectors(["two", "one", "four", "three"], EYE[[1, 0, 3, 2]], [1] * 4)
    pairs = [("eins", "one"), ("zwei", "two"), ("drei", "three"), ("vier", "four")]
    assert bli(SOURCE, target, pairs) == {"p1": 1.0, "p5": 1.0, "mrr": 1.0, "words": 4, "coverage": 1.0}


def test_ranks_alternatives_and_coverage() -> None:
    target = WordVectors(["one", "two", "a"], torch.stack([EYE[0], EYE[0] + EYE[1], EYE[1]]), [1] * 3)
    pairs = [("eins", "two"), ("zwei", "two"), ("zwei", "a"), ("fünf", "five"), ("drei", "unknown")]
    scores = bli(SOURCE, target, pairs, csls=1)
    # "eins" finds "one" first and "two" second; "zwei" finds one of its two translations; two words cannot be asked.
    assert scores["words"] == 2 and scores["coverage"] == 0.5
    assert scores["p1"] == 0.5 and scores["p5"] == 1.0 and scores["mrr"] == pytest.approx(0.75)


def test_nothing_to_ask() -> None:
    assert bli(SOURCE, SOURCE, [("x", "y")])["words"] == 0
