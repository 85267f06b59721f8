"""Intervals and levels of chance of the benchmarks that measure a run: by language, and of the mean over languages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from babelray.evaluation.benchmark import BENCHMARKS, Result, System
from babelray.evaluation.word_alignment import GoldPair, alignment_scores, chance_f1
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.metrics.intervals import interval_of_mean, share_interval
from babelray.storage import Location
from babelray.vectors.word_vectors import WordVectors
from conftest import SENTENCES
from support.own_data import word_pairs, write_parallel_text

Score = Callable[..., Result]


@pytest.fixture
def score(tiny_encoder: str, tmp_path: Path) -> Score:
    """Score a benchmark on a small run: sentences that are their own translations, and turned vectors with noise."""
    location = Location.parse(tmp_path)
    generator = torch.Generator().manual_seed(0)
    pairs = word_pairs()
    space = torch.randn(len(pairs), 12, generator=generator)
    for count, (code, noise) in enumerate({"en": 0.0, "de": 1.2, "nl": 1.5}.items(), start=1):
        words = [f"{code}:{pair[1]}" for pair in pairs]
        matrix = space + noise * torch.randn(space.shape, generator=generator)
        WordVectors(words, matrix, [1] * len(words)).save(location / "vectors" / code)
        if code != "en":
            texts = [f"{text} {place}" for place, text in enumerate(SENTENCES[: 40 + count])]
            tests = [Pair(f"{code}:{target}", f"en:{target}", "test") for _, target in pairs[: 50 * count]]
            write_pairs(location / "dictionary" / f"{code}-en", tests)
            write_pairs(location / "parallel" / f"{code}-en", [Pair(text, text[1:], "test") for text in texts])
    system = System(tiny_encoder, location, location, ["en", "de", "nl"])

    def run(name: str, **settings: object) -> Result:
        return BENCHMARKS.parse({"benchmark": name, **settings}).score(system)

    return run


def check(result: Result, metric: str) -> None:
    """Every language and the mean have an interval that holds the score; that of the mean is not the widest."""
    intervals = result.confidence(metric)
    assert intervals.keys() == {"", *result.scores} and len(result.scores) >= 2
    for code, (low, high) in intervals.items():
        value = result.scores[code][metric] if code else result.mean(metric)
        assert low <= value <= high and low < high, code
    widths = [high - low for code, (low, high) in intervals.items() if code]
    assert intervals[""][1] - intervals[""][0] <= max(widths) + 1e-9


def test_words_that_are_translated(score: Score) -> None:
    result = score("bli")
    check(result, "p1")
    for code, own in result.scores.items():
        assert result.confidence("p1")[code] == pytest.approx(share_interval(own["p1"], own["words"]))
    assert 0.05 < result.mean("p1") < 0.95, "the world is neither trivial nor hopeless"


def test_the_best_layer(score: Score) -> None:
    result = score("layers")
    check(result, "best")
    assert result.figures["layers"]["de"]["2"] == pytest.approx(score("retrieval").scores["de"]["mean"])


def test_the_language_model(score: Score) -> None:
    check(score("perplexity", sentences=12), "bits_per_character")


def test_word_similarity(score: Score, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for code in ("de", "nl"):
        vectors = WordVectors.load(Location.parse(tmp_path) / "vectors" / code)
        unit = torch.nn.functional.normalize(vectors.matrix)
        rows = []
        for i in range(60):
            rating = float(unit[i] @ unit[i + 100]) + 0.3 * generator.normal()
            rows.append(f"{vectors.words[i]}\t{vectors.words[i + 100]}\t{rating:.4f}\n")
        (tmp_path / f"{code}.csv").write_text("".join(rows))
    result = score("similarity", path=f"{tmp_path}/{{lang}}.csv")
    check(result, "harmonic")
    assert result.chance == {"de": 0.0, "nl": 0.0}


def test_the_language_of_sentences(score: Score, tmp_path: Path) -> None:
    data = write_parallel_text(tmp_path / "text", 30, de="de", nl="nl")
    result = score("geometry", data=data)
    check(result, "language_identified")
    assert result.chance == {"de": 0.5, "nl": 0.5}


def test_a_sole_language_is_no_neutral_space(score: Score, tmp_path: Path) -> None:
    result = score("geometry", data=write_parallel_text(tmp_path / "text", 30, de="de"))
    assert result.scores["de"]["language_identified"] == 1 == result.chance["de"], "not 0, which would be the best"


def test_languages_with_examples_of_their_own() -> None:
    result = Result({"de": {"f1": 0.5}, "nl": {"f1": 0.7}}, intervals={"de": (0.4, 0.6), "nl": (0.6, 0.8)})
    scores = {code: own["f1"] for code, own in result.scores.items()}
    assert result.confidence("f1")[""] == interval_of_mean(scores, result.intervals)
    partly = Result(result.scores, intervals={"de": (0.4, 0.6)})
    assert "" not in partly.confidence("f1"), "not known of every language"


def test_links_at_random_score_the_level_of_chance() -> None:
    generator = np.random.default_rng(1)
    gold = []
    for _ in range(40):
        s, t = generator.integers(3, 9, size=2)
        links = [(i, j) for i in range(s) for j in range(t) if generator.random() < 0.25]
        sure = frozenset(link for link in links if generator.random() < 0.6)
        gold.append(GoldPair(["x"] * s, ["y"] * t, sure, frozenset(links)))

    def guess(pair: GoldPair) -> list[tuple[int, int]]:
        s, t = len(pair.source), len(pair.target)
        if s <= t:
            return list(zip(range(s), generator.permutation(t)[:s].tolist(), strict=True))
        return list(zip(generator.permutation(s)[:t].tolist(), range(t), strict=True))

    guessed = [alignment_scores([guess(pair) for pair in gold], gold)["f1"] for _ in range(300)]
    assert chance_f1(gold) == pytest.approx(np.mean(guessed), abs=0.01)
    assert chance_f1([]) == 0
