import pytest
from hypothesis import given
from hypothesis import strategies as st

from babelray.errors import DataError
from babelray.lexicon.coverage import measure_coverage

GERMAN = {f"wort{i}" for i in range(100)} | {"taxi"}
ENGLISH = {f"word{i}" for i in range(100)} | {"taxi"}
PAIRS = [(f"wort{i}", f"word{i}") for i in range(0, 200, 2)]
"""Half of them are in both vocabularies."""

words = st.lists(st.tuples(st.sampled_from("aAbBcC"), st.sampled_from("aAbBcC")), max_size=8)


@given(words, st.sets(st.sampled_from("abcABC")), st.sets(st.sampled_from("abcABC")), st.booleans())
def test_counts_are_those_of_the_entries_as_read(pairs, source, target, lowercase) -> None:
    coverage = measure_coverage(pairs, source, target, lowercase)
    read = {(a.lower(), b.lower()) if lowercase else (a, b) for a, b in pairs}
    assert coverage.entries == len(read) == len(coverage.reading.words(pairs))
    assert coverage.usable == sum(a in source and b in target for a, b in read)
    assert coverage.source == sum(a in source for a, _ in read)
    assert coverage.target == sum(b in target for _, b in read)
    assert coverage.best_usable >= coverage.usable


def test_a_dictionary_that_fits_needs_no_remark() -> None:
    coverage = measure_coverage(PAIRS, GERMAN, ENGLISH)
    coverage.check("train.txt")
    assert str(coverage).startswith("50 of 100 entries usable (50.0%)") and coverage.warnings == []


@pytest.mark.parametrize("usable_all_the_same", [0, 1])
def test_exchanged_columns_are_refused(usable_all_the_same: int) -> None:
    exchanged = [(b, a) for a, b in PAIRS] + [("taxi", "taxi")] * usable_all_the_same
    with pytest.raises(DataError, match=r"with the columns exchanged: (50\.0|50\.5)% instead of") as caught:
        measure_coverage(exchanged, GERMAN, ENGLISH).check("train.txt")
    assert "Exchange the columns" in caught.value.remedy and "--" not in caught.value.remedy


def test_another_case_is_refused() -> None:
    cased = [(a.capitalize(), b) for a, b in PAIRS]
    with pytest.raises(DataError, match=r"lower-cased: 50\.0% instead of 0\.0%") as caught:
        measure_coverage(cased, GERMAN, ENGLISH, lowercase=False).check("train.txt")
    assert "--lowercase" in caught.value.remedy
    measure_coverage(cased, GERMAN, ENGLISH).check("train.txt")
    with pytest.raises(DataError, match="as written") as caught:
        measure_coverage(cased, {word.capitalize() for word in GERMAN}, ENGLISH).check("train.txt")
    assert "--no-lowercase" in caught.value.remedy


def test_both_at_once() -> None:
    with pytest.raises(DataError, match="columns exchanged and lower-cased") as caught:
        measure_coverage([(b, a.upper()) for a, b in PAIRS], GERMAN, ENGLISH, lowercase=False).check("train.txt")
    assert "Exchange" in caught.value.remedy and "--lowercase" in caught.value.remedy


def test_a_dictionary_of_other_languages_is_refused() -> None:
    with pytest.raises(DataError, match=r"no entry is usable: .* 50\.0% of its words, the target 0\.0%"):
        measure_coverage([("taxi", "x"), ("y", "z")], GERMAN, ENGLISH).check("train.txt")


def test_small_differences_are_said_but_not_refused() -> None:
    some = [(a.capitalize(), b) for a, b in PAIRS[:20]] + PAIRS[20:]
    coverage = measure_coverage(some, GERMAN, ENGLISH, lowercase=False)
    coverage.check("train.txt")
    assert coverage.warnings == ["lower-cased: 50.0% instead of 30.0%"]
    few = measure_coverage([*PAIRS[:3], *((f"x{i}", "y") for i in range(30))], GERMAN, ENGLISH)
    assert few.warnings == ["the result rests on 9.1% of the dictionary"]
