import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, pearsonr

from babelray.metrics.intervals import (
    correlation_interval,
    interval_of_mean,
    intervals_of,
    mean_interval,
    probability_of_guessing,
    share_interval,
)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_has_the_interval_of_wilson(hits: tuple[int, int]) -> None:
    right, count = hits
    expected = binomtest(right, count).proportion_ci(method="wilson")
    assert share_interval(right / count, count) == pytest.approx((expected.low, expected.high), abs=1e-9)
    scores = [1.0] * right + [0.0] * (count - right)
    assert mean_interval(scores) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.001, 0.9))
def test_the_probability_of_guessing_is_binomial(hits: tuple[int, int], chance: float) -> None:
    right, count = hits
    expected = binomtest(right, count, chance, alternative="greater").pvalue
    assert probability_of_guessing(right / count, count, chance) == pytest.approx(expected, abs=1e-9)


def test_a_correlation_has_the_interval_of_fisher() -> None:
    x, noise = np.random.default_rng(0).normal(size=(2, 40))
    found = pearsonr(x, x + noise)
    expected = found.confidence_interval()
    assert correlation_interval(found.statistic, 40) == pytest.approx((expected.low, expected.high))
    assert correlation_interval(0.5, 3) == (-1, 1)


def test_nothing_is_known_without_examples() -> None:
    assert share_interval(0.0, 0) == (0, 1) and intervals_of({}) == {}


@pytest.mark.parametrize("count", [20, 200])
@pytest.mark.parametrize("same_rows", [True, False])
def test_the_interval_of_a_mean_holds_as_often_as_it_says(count: int, same_rows: bool) -> None:
    """Two directions and three languages; a sentence that is hard in one direction or language is hard in all."""
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(500):
        easy = generator.beta(2, 1, size=count)
        own = [easy if same_rows else generator.beta(2, 1, size=count - code) for code in range(3)]
        hits = [(generator.random((2, len(share))) < share).mean(0).tolist() for share in own]
        low, high = intervals_of(dict(zip("abc", hits, strict=True)))[""]
        held += low <= 2 / 3 <= high
    assert 0.92 <= held / 500 <= 0.985


@pytest.mark.parametrize("shared", [True, False])
def test_a_mean_of_scores_that_have_intervals_holds_as_often_as_it_says(shared: bool) -> None:
    """Shares of three languages; with shared examples, which all languages get right or wrong together."""
    generator, truth, held, widths = np.random.default_rng(2), 0.8, 0, []
    for _ in range(500):
        hits = generator.random((1 if shared else 3, 60)) < truth
        shares = dict(zip("abc", np.broadcast_to(hits.mean(1), 3).tolist(), strict=True))
        intervals = {code: share_interval(share, 60) for code, share in shares.items()}
        low, high = interval_of_mean(shares, intervals, independent=not shared)
        held += low <= truth <= high
        widths.append((high - low) / (intervals["a"][1] - intervals["a"][0]))
    assert 0.92 <= held / 500 <= 0.985
    assert np.mean(widths) == pytest.approx(1 if shared else 3**-0.5, rel=0.05)
