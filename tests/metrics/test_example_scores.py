"""Which answers count, and whether two systems' differ by more than chance."""

import pytest

from babelray.metrics.example_scores import example_scores_of, p_value, p_values

TWO_WAYS = {"de": {"to_hub": {"example_scores": [1, 0]}, "from_hub": {"example_scores": [1, 1]}}}


def test_hits_of_each_kind_of_predictions() -> None:
    assert example_scores_of(TWO_WAYS, ["de"]) == {"de": [1.0, 0.5]}
    assert example_scores_of({"de": {"example_scores": [0.25, 1], "answers": {}}}, ["de"]) == {"de": [0.25, 1.0]}
    assert example_scores_of({"enfr": ["0-0 1-1"]}, ["enfr"]) == {}, "links have no score of their own"
    assert example_scores_of(TWO_WAYS, ["de", "fr"]) == {}, "all languages or none"


def test_p_values_of_languages_and_of_their_mean() -> None:
    worse, better = {"de": [0.0] * 10, "fr": [0.0, 1.0] * 5}, {"de": [1.0] * 10, "fr": [0.0, 1.0] * 5}
    found = p_values(worse, better)
    assert found["de"] == pytest.approx(2 / 2**10) and found["fr"] == 1
    assert found[""] == pytest.approx(2 / 2**10), "rows are the same sentences: flipped in all languages at once"


def test_what_cannot_be_paired() -> None:
    assert p_value({}, {"de": [1.0]}) is None
    assert p_value({"de": [1.0]}, {"de": [1.0, 0.0]}, "de") is None
    assert p_values({"de": [1.0]}, {"de": [1.0, 0.0]}) == {}


def test_languages_with_other_numbers_of_examples_are_flipped_on_their_own() -> None:
    first, second = {"de": [0.0] * 8, "fr": [0.0] * 5}, {"de": [1.0] * 8, "fr": [1.0] * 5}
    assert p_value(first, second) == pytest.approx(2 / 2**13)


@pytest.mark.parametrize("linearised", [False, True])
def test_repeated_examples_count_once(linearised: bool) -> None:
    scores = [1, 0, 0, 1, 1]
    repeated = {"de": {"example_scores": scores * 4, "clusters": [*range(5)] * 4}}
    assert example_scores_of(repeated, ["de"], linearised)["de"] == pytest.approx(scores)
    uneven = {"de": {"example_scores": [1, 1, 1, 0, 0.5], "clusters": [0, 0, 0, 3, 4]}}
    found = example_scores_of(uneven, ["de"], linearised)["de"]
    assert len(found) == 3 and sum(found) / 3 == pytest.approx(0.7), "the mean is over all examples"
