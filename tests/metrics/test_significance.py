import math
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from babelray.errors import DataError
from babelray.metrics import significance
from babelray.metrics.significance import holm, leaderboard, over_rows, paired_bootstrap, paired_permutation


def draws(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- permutation

quarters = st.integers(-6, 6).map(lambda n: n / 4)


@settings(max_examples=60)
@given(st.lists(st.lists(quarters, min_size=1, max_size=5), min_size=1, max_size=3))
def test_few_differences_are_enumerated(groups: list[list[float]]) -> None:
    """A third is not exact in binary, and rounding must not part ties: the oracle counts in 240ths of a language."""
    languages = {str(i): group for i, group in enumerate(groups)}
    weighted = [int(4 * d) * 60 // len(group) for group in groups for d in group]
    sums = [sum(choice) for choice in product(*((w, -w) for w in weighted))]
    found = paired_permutation(languages, {code: np.zeros(len(group)) for code, group in languages.items()})
    assert found.exact and found.p == sum(abs(total) >= abs(sums[0]) for total in sums) / len(sums)
    assert found.difference == pytest.approx(sums[0] / 240 / len(groups), abs=1e-12)


def test_same_as_scipy() -> None:
    def difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return (x - y).mean(axis)

    a, b = draws().normal(0.3, 1, 12), draws(1).normal(0, 1, 12)
    # Scipy doubles the smaller tail; with signs that can all be flipped, both tails are alike.
    exact = scipy.stats.permutation_test((a, b), difference, permutation_type="samples", n_resamples=np.inf)
    assert paired_permutation(a, b).p == pytest.approx(exact.pvalue)
    a, b = draws(2).normal(0.25, 1, 60), draws(3).normal(0, 1, 60)
    drawn = scipy.stats.permutation_test(
        (a, b), difference, permutation_type="samples", n_resamples=20_000, rng=draws(4), vectorized=True
    )
    found = paired_permutation(a, b, samples=20_000)
    assert not found.exact and 0.01 < found.p < 0.9
    assert found.p == pytest.approx(drawn.pvalue, abs=5 * math.sqrt(found.p / 20_000))


def test_many_examples_agree_with_students_test() -> None:
    for shift in (0.0, 0.04, 0.08):
        a, b = draws(5).normal(shift, 1, 3000), draws(6).normal(0, 1, 3000)
        expected = scipy.stats.ttest_rel(a, b).pvalue
        assert paired_permutation(a, b, samples=5000).p == pytest.approx(expected, abs=0.03)
        assert paired_bootstrap(a, b, samples=5000).p == pytest.approx(expected, abs=0.03)


def test_zeros_do_not_count_and_blocks_do_not_either() -> None:
    a, b = [1.0, 1, 1, 1, 0] + [1.0] * 500, [0.0, 0, 0, 0, 1] + [1.0] * 500
    found = paired_permutation(a, b)
    assert found.exact and found.p == 2 * (1 + 5) / 32, "five that differ, four of them one way"
    a, b = draws().normal(size=101), draws(1).normal(size=101)
    expected = paired_permutation(a, b, samples=999)
    with patch.object(significance, "CELLS", 1000):
        assert paired_permutation(a, b, samples=999).p == pytest.approx(expected.p, abs=0.08)
        assert sum(len(flips) for flips in significance._random_flips(101, 999, 1)) == 999
    flips = np.concatenate(list(significance._random_flips(101, 9999, 1)))
    assert np.abs(flips.mean(0) - 0.5).max() < 5 * 0.5 / math.sqrt(9999)
    assert np.unique(flips, axis=0).shape == flips.shape


def test_systems_that_are_alike_are_found_apart_as_often_as_alpha_says() -> None:
    """p-values under the null are uniform: among 400 at 5 %, 20 ± 4.4; none may be 0."""
    ps = [paired_permutation(draws(i).normal(size=30), np.zeros(30), samples=400, seed=i).p for i in range(400)]
    assert abs(sum(p <= 0.05 for p in ps) - 20) < 4 * 4.4 and min(ps) > 0
    assert scipy.stats.kstest(ps, "uniform").pvalue > 0.001


def test_the_mean_is_over_languages() -> None:
    """A language of many examples counts as much as one of few."""
    a = {"de": [1.0] * 100, "fi": [0.0] * 4}
    b = {"de": [0.0] * 100, "fi": [1.0] * 4}
    assert paired_permutation(a, b).difference == 0 and paired_permutation(a, b).p > 0.9
    joined = [np.concatenate([np.asarray(v) for v in side.values()]) for side in (a, b)]
    assert paired_permutation(*joined).difference == pytest.approx(96 / 104) and paired_permutation(*joined).p < 0.001
    found = paired_bootstrap(a, b)
    assert (found.low, found.high, found.p) == (0, 0, 1), "within a language all differences are the same"


# --- bootstrap


def test_the_interval_is_where_theory_puts_it() -> None:
    """Means of n values drawn anew have the variance var / n; of languages, the mean of them over L."""
    a = {"de": draws().normal(0.5, 1, 400), "fi": draws(1).normal(0, 2, 200), "sw": draws(2).exponential(1, 900)}
    b = {code: np.zeros_like(values) for code, values in a.items()}
    found = paired_bootstrap(a, b, samples=20_000)
    centre = np.mean([values.mean() for values in a.values()])
    width = math.sqrt(sum(values.var() / len(values) for values in a.values())) / 3
    assert found.difference == pytest.approx(centre)
    assert found.low == pytest.approx(centre - 1.96 * width, abs=0.06 * width)
    assert found.high == pytest.approx(centre + 1.96 * width, abs=0.06 * width)
    half = paired_bootstrap(a, b, samples=20_000, level=0.5)
    assert half.high - half.low == pytest.approx(2 * 0.6745 * width, rel=0.05)


@pytest.mark.parametrize("kind", ["measured", "right or wrong"])
def test_the_interval_holds_the_truth_as_often_as_it_says(kind: str) -> None:
    """The truth is 0.2; of 400 intervals at 90 %, about 360 ± 6 hold it, and a few less by how narrow they are."""
    held = 0
    for i in range(400):
        generator = draws(i)
        if kind == "measured":
            a = {code: generator.normal(0.2, 1, 60) for code in "xy"}
            b = {code: np.zeros(60) for code in "xy"}
        else:
            a = {code: generator.random(60) < 0.6 for code in "xy"}
            b = {code: generator.random(60) < 0.4 for code in "xy"}
        found = paired_bootstrap(a, b, samples=500, seed=i, level=0.9)
        held += found.low <= 0.2 <= found.high
    assert 330 < held < 380


def test_values_drawn_by_number_are_distributed_as_those_drawn_by_place() -> None:
    values = np.repeat([-1.0, 0.0, 0.5, 1.0], [10, 50, 20, 20])
    by_number = significance._resampled_means(values, 20_000, draws())
    by_place = values[draws(1).integers(100, size=(20_000, 100))].mean(1)
    assert scipy.stats.ks_2samp(by_number, by_place).pvalue > 0.001
    assert by_number.mean() == pytest.approx(values.mean(), abs=5 * values.std() / 10 / math.sqrt(20_000))
    assert by_number.std() == pytest.approx(values.std() / 10, rel=0.03)


@settings(max_examples=40)
@given(st.lists(st.tuples(quarters, quarters), min_size=2, max_size=40), st.integers(0, 9))
def test_p_and_interval_agree_and_sides_can_be_changed(pairs: list[tuple[float, float]], seed: int) -> None:
    a, b = zip(*pairs, strict=True)
    found, other = paired_bootstrap(a, b, 500, seed), paired_bootstrap(b, a, 500, seed)
    assert other.difference == pytest.approx(-found.difference) and 0 < found.p <= 1
    if found.low > 1e-9 or found.high < -1e-9:
        assert found.p <= 0.05 + 2 * 2 / 501
    elif found.low < -1e-9 and found.high > 1e-9:
        assert found.p >= 0.05 - 2 * 2 / 501
    assert found == paired_bootstrap(a, b, 500, seed)


def test_blocks_bound_what_is_held() -> None:
    sizes = []

    class Watched:
        def integers(self, *arguments: object, size: tuple[int, int], **how: object) -> np.ndarray:
            sizes.append(size[0] * size[1])
            return draws(len(sizes)).integers(*arguments, size=size, **how)  # type: ignore[no-any-return, call-overload]

    with patch.object(significance, "CELLS", 5000):
        means = significance._resampled_means(draws().normal(size=300), 1001, Watched())  # type: ignore[arg-type]
    assert len(means) == 1001 and max(sizes) <= 5000 and len(sizes) == 63
    assert len(np.unique(means)) == 1001


def test_equal_systems_are_equal() -> None:
    scores = draws().normal(size=50)
    assert paired_bootstrap(scores, scores).p == 1 and paired_permutation(scores, scores).p == 1


# --- parallel rows


def test_sentences_that_are_hard_in_all_languages_are_one_example() -> None:
    """Forty copies of a language tell no more than one, though drawn within languages they would seem to."""
    one, other = draws().normal(0.3, 1, 50), draws(1).normal(0, 1, 50)
    a, b = ({str(i): side for i in range(40)} for side in (one, other))
    alone, together = paired_bootstrap(one, other), paired_bootstrap(over_rows(a), over_rows(b))
    assert together.difference == pytest.approx(alone.difference) and together.low == pytest.approx(alone.low, abs=1e-9)
    apart = paired_bootstrap(a, b)
    assert (apart.high - apart.low) == pytest.approx((alone.high - alone.low) / math.sqrt(40), rel=0.1)


# --- Holm

probabilities = st.lists(st.floats(0, 1), max_size=8)


@given(probabilities, st.floats(0.001, 0.999))
def test_holm_rejects_step_by_step(ps: list[float], alpha: float) -> None:
    """From the smallest p on, each against α over the number of those left, until one is not rejected."""
    rejected = set()
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        if (len(ps) - rank) * ps[i] > alpha:
            break
        rejected.add(i)
    adjusted = holm(ps)
    assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected
    assert all(p <= q <= min(1, len(ps) * p) for p, q in zip(ps, adjusted, strict=True))


# --- leaderboard


def systems(count: int = 200, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """`strong` and `close` share their noise and differ by nothing that counts; `weak` is worse everywhere."""
    noise = {code: draws(seed + i).normal(size=count) for i, code in enumerate(("de", "fi"))}
    jitter = {code: draws(seed + 10 + i).normal(0, 0.3, count) for i, code in enumerate(noise)}
    return {
        "weak": {code: values - 0.3 for code, values in noise.items()},
        "close": {code: values + jitter[code] - jitter[code].mean() - 0.005 for code, values in noise.items()},
        "strong": noise,
    }


def test_systems_by_their_means_with_a_mark() -> None:
    scores = systems()
    board = leaderboard(scores)
    assert [row.system for row in board.rows] == ["strong", "close", "weak"]
    assert [row.tied for row in board.rows] == [True, True, False]
    assert [row.behind for row in board.rows] == pytest.approx([0, 0.005, 0.3])
    assert board.rows[0].mean == pytest.approx(np.mean([values.mean() for values in scores["strong"].values()]))
    raw = [paired_permutation(scores["strong"], scores[name]).p for name in ("close", "weak")]
    assert [row.p for row in board.rows] == [1.0, *holm(raw)]


def test_where_lower_is_better_the_order_is_turned() -> None:
    scores = {name: {code: -values for code, values in rows.items()} for name, rows in systems().items()}
    board = leaderboard(scores, higher_is_better=False)
    assert [(row.system, row.tied) for row in board.rows] == [("strong", True), ("close", True), ("weak", False)]
    assert leaderboard(scores).rows[0].system == "weak"


def test_many_comparisons_ask_for_more() -> None:
    """Six differences one way give p = 1/32: below 5 % alone, not with three others."""
    best, other = [1.0] * 6, [0.0] * 6
    assert not leaderboard({"best": best, "a": other}).rows[1].tied
    board = leaderboard({"best": best, "a": other, "b": other, "c": other, "d": other})
    assert all(row.tied for row in board.rows) and board.rows[1].p == pytest.approx(4 / 32)
    assert not leaderboard({"best": best, "a": other, "b": other, "c": other, "d": other}, alpha=0.2).rows[1].tied


def test_the_table() -> None:
    board = leaderboard({"a|b": [1.0] * 12, "c": [0.0] * 12, "d": [1.0] * 11 + [0.5]}, spread={"d": 0.014})
    assert board.markdown().splitlines() == [
        "| system | mean | behind the best | p |",
        "|---|---|---|---|",
        "| a\\|b | **100.0** |  |  |",
        "| d | **95.8 ± 1.4** | 4.2 | 1.000 |",
        "| c | 0.0 | 100.0 | < 0.001 |",
        "",
        "± is the standard deviation over seeds. Bold: not significantly worse than the best (paired permutation test, "
        "Holm's correction, α = 0.05).",
    ]
    plain = leaderboard({"a": [12.5, 13.5]}, higher_is_better=False).markdown(percent=False)
    assert "| a | **13.000** |  |  |" in plain and "±" not in plain


# --- errors


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1.0, 2.0], [1.0], "2 scores of the first system, but 1 of the second"),
        ({"de": [1.0, 2.0]}, {"de": [1.0]}, "de: 2 scores of the first"),
        ([1.0, math.nan], [1.0, 2.0], "the first system: the score of example 1 is not a finite number"),
        ({"fi": [1.0, 2.0]}, {"fi": [math.inf, 2.0]}, "the second system, fi: the score of example 0"),
        ({"fi": [1.0, 2.0]}, {"de": [1.0, 2.0]}, "only one of the systems has scores of de, fi"),
        ({"fi": [1.0, 2.0]}, [1.0, 2.0], "scores of fi, no language"),
        ([[1.0, 2.0]], [[1.0, 2.0]], r"scores of shape \(1, 2\)"),
        ([], [], r"scores of shape \(0,\)"),
        ({}, {}, "scores of no language"),
        (["good"], ["bad"], "not an array of numbers"),
    ],
)
def test_scores_that_do_not_fit_are_told(a: object, b: object, message: str) -> None:
    for test in (paired_bootstrap, paired_permutation):
        with pytest.raises(DataError, match=message):
            test(a, b)  # type: ignore[operator]


def test_other_mistakes() -> None:
    with pytest.raises(DataError, match="1 example, at least 2"):
        paired_bootstrap([1.0], [2.0])
    with pytest.raises(DataError, match="0 samples"):
        paired_permutation([1.0], [2.0], samples=0)
    with pytest.raises(DataError, match="the level is 95"):
        paired_bootstrap([1.0, 2.0], [2.0, 3.0], level=95)
    with pytest.raises(DataError, match="rows are not parallel: de has 1, fi has 2"):
        over_rows({"de": [1.0], "fi": [1.0, 2.0]})
    with pytest.raises(DataError, match="no systems"):
        leaderboard({})
    with pytest.raises(DataError, match="alpha is 5"):
        leaderboard({"a": [1.0]}, alpha=5)
    with pytest.raises(DataError, match="a spread of b, but no scores"):
        leaderboard({"a": [1.0]}, spread={"b": 0.1})
    with pytest.raises(DataError, match="b: the score of example 0"):
        leaderboard({"a": [1.0], "b": [math.nan]})
    with pytest.raises(DataError, match="b against a: de: 1 scores of the first system, but 2"):
        leaderboard({"a": {"de": [1.0, 2.0]}, "b": {"de": [3.0]}})


def test_tensors_and_answers_may_be_given() -> None:
    found = paired_permutation(torch.tensor([True, True, False]), torch.tensor([False, False, False]))
    assert found.difference == pytest.approx(2 / 3) and found.p == 0.5
