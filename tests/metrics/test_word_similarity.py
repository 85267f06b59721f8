import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from babelray.errors import DataError
from babelray.metrics.word_similarity import Rating, WordSimilaritySource, read_ratings, word_similarity
from babelray.storage import Location
from babelray.vectors.word_vectors import WordVectors


def vectors(**rows: list[float]) -> WordVectors:
    return WordVectors(list(rows), torch.tensor(list(rows.values())), [1] * len(rows))


def at_cosines(*cosines: float) -> tuple[WordVectors, list[str]]:
    """Words `w0`, `w1`, … whose cosines with `x` are these."""
    words = [f"w{i}" for i in range(len(cosines))]
    rows = {word: [cosine, math.sqrt(1 - cosine**2)] for word, cosine in zip(words, cosines, strict=True)}
    return vectors(x=[1.0, 0.0], **rows), words


def scores_of(cosines: list[float], ratings: list[float]) -> dict[str, float]:
    space, words = at_cosines(*cosines)
    return word_similarity(space, space, [Rating("x", word, score) for word, score in zip(words, ratings, strict=True)])


def test_perfect_and_reversed_ranks() -> None:
    perfect, reversed_ = scores_of([0.1, 0.2, 0.9], [1, 2, 9]), scores_of([0.1, 0.2, 0.9], [9, 8, 1])
    assert perfect == pytest.approx({"spearman": 1, "pearson": 1, "harmonic": 1, "pairs": 3, "coverage": 1})
    assert reversed_ == pytest.approx({"spearman": -1, "pearson": -1, "harmonic": 0, "pairs": 3, "coverage": 1})


def test_the_harmonic_mean_by_hand() -> None:
    # Cosines -2, -1, 0, 1, 2 (fifths) and ratings 0, 0, 0, 0, 10: covariance 20, squares 10 and 80 → r = 20 / √800.
    # Ranks 1…5 against 2.5, 2.5, 2.5, 2.5, 5: covariance 5, squares 10 and 5 → ρ = 5 / √50: here r = ρ = 1 / √2.
    found = scores_of([-0.4, -0.2, 0.0, 0.2, 0.4], [0, 0, 0, 0, 10])
    assert found["pearson"] == pytest.approx(math.sqrt(0.5)) and found["spearman"] == pytest.approx(math.sqrt(0.5))
    # Cosines 0, 1, 2 (fifths) and ratings 0, 1, 5: covariance 5, squares 2 and 14 → r = 5 / √28, while ρ = 1.
    found = scores_of([0.0, 0.2, 0.4], [0, 1, 5])
    assert found["spearman"] == pytest.approx(1) and found["pearson"] == pytest.approx(5 / math.sqrt(28))
    assert found["harmonic"] == pytest.approx(2 * 5 / math.sqrt(28) / (1 + 5 / math.sqrt(28)))


def test_one_negative_correlation_makes_the_harmonic_mean_zero() -> None:
    # Ranks 1, 2, 3, 4, 5, 6 against 5, 4, 3, 2, 1, 6: Σd² = 40, ρ = 1 − 6·40 / (6·35); the last, far off, makes r high.
    found = scores_of([0.01, 0.02, 0.03, 0.04, 0.05, 0.9], [5, 4, 3, 2, 1, 90])
    assert found["spearman"] == pytest.approx(-1 / 7) and found["pearson"] > 0.9
    assert found["harmonic"] == 0


def test_ties_share_their_mean_rank() -> None:
    # Cosine ranks 1.5, 1.5, 3, 4; rating ranks 1, 2.5, 2.5, 4. Deviations: −1, −1, 0.5, 1.5 and −1.5, 0, 0, 1.5;
    # covariance 1.5 + 2.25 = 3.75; squares 4.5 and 4.5.
    found = scores_of([0.2, 0.2, 0.5, 0.8], [1, 2, 2, 3])
    assert found["spearman"] == pytest.approx(3.75 / 4.5)


def test_noise_in_the_last_digits_does_not_part_what_is_tied() -> None:
    lengths = [0.1, 0.3, 0.7, 1.1, 1.9, 3.3]
    space = vectors(x=[3.0, 1.0, 2.0], **{f"w{i}": [k * v for v in (1.0, 2.0, 3.0)] for i, k in enumerate(lengths)})
    found = word_similarity(space, space, [Rating("x", f"w{i}", i) for i in range(6)])
    assert found["spearman"] == found["pearson"] == found["harmonic"] == 0


@pytest.mark.parametrize("missing", ["midpoint", "skip"])
@pytest.mark.parametrize(
    "ratings",
    [[], [("x", "w0", 1)], [("x", "w0", 1), ("x", "no", 2)], [("x", "w0", 1), ("x", "w1", 1)], [("x", "no", 1)]],
)
def test_without_a_correlation_all_are_zero(missing: str, ratings: list[tuple[str, str, float]]) -> None:
    space, _ = at_cosines(0.1, 0.5)
    found = word_similarity(space, space, [Rating(*rating) for rating in ratings], missing)
    assert (found["spearman"], found["pearson"], found["harmonic"]) == (0, 0, 0)
    known = sum(second != "no" for _, second, _ in ratings)
    assert found["coverage"] == (known / len(ratings) if ratings else 0)
    assert found["pairs"] == (len(ratings) if missing == "midpoint" else known)


def test_a_missing_word_is_put_in_the_middle_or_left_out() -> None:
    space, _ = at_cosines(0.0, 0.2, 0.8)
    ratings = [Rating("x", word, score) for word, score in zip(["w0", "w1", "w2", "no"], [0, 1, 4, 9], strict=True)]
    skipped, midway = word_similarity(space, space, ratings, "skip"), word_similarity(space, space, ratings)
    assert skipped == pytest.approx({"spearman": 1, "pearson": 1, "harmonic": 1, "pairs": 3, "coverage": 0.75})
    # The unknown pair, rated highest, gets 0.4, the third rank of four: Σd² = 2, ρ = 1 − 6·2 / (4·15) = 0.8.
    # Fifths 0, 1, 4, 2 (mean 1.75) against 0, 1, 4, 9 (mean 3.5): Σxy = 35, covariance 35 − 4·1.75·3.5 = 10.5,
    # squares 21 − 12.25 = 8.75 and 98 − 49 = 49.
    assert midway["spearman"] == pytest.approx(0.8) and midway["pearson"] == pytest.approx(10.5 / math.sqrt(8.75 * 49))
    assert midway["pairs"] == 4 and midway["coverage"] == 0.75


@pytest.mark.parametrize("name", ["first", "second"])
def test_either_missing_word_makes_the_pair_missing(name: str) -> None:
    space, _ = at_cosines(0.0, 0.2)
    words = {"first": "x", "second": "w0"} | {name: "no"}
    ratings = [Rating("x", "w0", 0), Rating("x", "w1", 1), Rating(**words, score=2)]
    assert word_similarity(space, space, ratings, "skip")["coverage"] == 2 / 3


def cosine_is(space: WordVectors, phrase: str, expected: float | None) -> None:
    """Between two known cosines, 0 and 1, that are rated so, Pearson's is 1 only where the rating is the cosine's."""
    known = [Rating("x", "zero", 0), Rating("x", "x", 1)]
    asked = Rating("x", phrase, 0.5 if expected is None else expected)
    found = word_similarity(space, space, [*known, asked], "skip")
    assert found["pairs"] == (2 if expected is None else 3)
    assert found["pearson"] == pytest.approx(1, abs=1e-9)


def test_a_phrase_is_looked_up_whole_and_then_word_by_word() -> None:
    base = {"x": [1.0, 0.0], "zero": [0.0, 1.0], "hot": [3.0, 0.0], "dog": [0.0, 4.0]}
    underscore, space, lower = {"hot_dog": [0.6, 0.8]}, {"hot dog": [0.8, 0.6]}, {"paris": [0.28, 0.96]}
    cosine_is(vectors(**base | space | underscore), "hot dog", 0.6)
    cosine_is(vectors(**base | space), "hot dog", 0.8)
    cosine_is(vectors(**base | space), "hot_dog", 0.8)
    cosine_is(vectors(**base), "hot dog", 0.6)  # the mean of (3, 0) and (0, 4)
    cosine_is(vectors(**base), "Hot_Dog", 0.6)
    cosine_is(vectors(**base), "hot cat", None)
    cosine_is(vectors(**base | underscore), "Hot Dog", 0.6)
    cosine_is(vectors(**base | lower), "Paris", 0.28)
    cosine_is(vectors(**base | lower | {"Paris": [0.96, 0.28]}), "Paris", 0.96)
    cosine_is(vectors(**base | {"Rom": [0.6, 0.8]}), "rom", None)
    cosine_is(vectors(**base), "_", None)


def test_across_languages_each_word_is_looked_up_on_its_side() -> None:
    german = vectors(gift=[1.0, 0.0], rot=[0.0, 1.0])
    english = vectors(poison=[1.0, 0.1], gift=[0.1, 1.0], red=[0.0, 1.0])
    ratings = [Rating("gift", "poison", 4), Rating("gift", "gift", 0.5), Rating("rot", "red", 4.1)]
    assert word_similarity(german, english, ratings)["spearman"] == pytest.approx(1)
    backwards = [Rating(rating.second, rating.first, rating.score) for rating in ratings]
    assert word_similarity(german, english, backwards)["coverage"] == 1 / 3  # only "gift" is a word of both


def test_half_precision_vectors_are_compared_in_double() -> None:
    space = WordVectors(["a", "b", "c"], torch.tensor([[1.0, 0], [1, 1], [1, 2]], dtype=torch.bfloat16), [1] * 3)
    ratings = [Rating("a", "a", 1), Rating("a", "b", 1 / math.sqrt(2)), Rating("a", "c", 1 / math.sqrt(5))]
    assert word_similarity(space, space, ratings)["pearson"] == pytest.approx(1, abs=1e-9)


def test_spaces_of_two_sizes_cannot_be_compared() -> None:
    with pytest.raises(DataError, match="of 2 and of 3 dimensions"):
        word_similarity(vectors(a=[1.0, 0]), vectors(a=[1.0, 0, 0]), [Rating("a", "a", 1)])


RATED = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-20, 20)), min_size=2, max_size=12)


@given(RATED, st.sampled_from(["midpoint", "skip"]), st.integers(0, 2**31))
def test_only_the_order_of_ratings_counts_for_spearman_and_sides_can_be_swapped(
    rated: list[tuple[int, int, int]], missing: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    names = [f"w{i}" for i in range(5)]  # w5 is unknown
    left, right = (WordVectors(names, torch.randn(5, 3, generator=generator), [1] * 5) for _ in range(2))
    ratings = [Rating(f"w{i}", f"w{j}", score) for i, j, score in rated]
    found = word_similarity(left, right, ratings, missing)
    assert all(math.isfinite(value) for value in found.values()) and abs(found["spearman"]) <= 1 + 1e-9
    bent = [Rating(r.first, r.second, math.exp(r.score / 4) + 3) for r in ratings]
    assert word_similarity(left, right, bent, missing)["spearman"] == pytest.approx(found["spearman"], abs=1e-9)
    opposite = [Rating(r.first, r.second, -r.score) for r in ratings]
    assert word_similarity(left, right, opposite, missing)["spearman"] == pytest.approx(-found["spearman"], abs=1e-9)
    swapped = [Rating(r.second, r.first, r.score) for r in ratings]
    assert word_similarity(right, left, swapped, missing) == pytest.approx(found, abs=1e-9)


def write(file: Path, text: str) -> Location:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return Location.parse(file)


@pytest.mark.parametrize("gold", ["keys/en.test.gold.txt", "data/en.test.gold.txt"])
def test_semeval_2017_in_two_files(tmp_path: Path, gold: str) -> None:
    write(tmp_path / gold, "2.5\n0.17\n")
    data = write(tmp_path / "data/en.test.data.txt", "Brexit\tclimate change\nSi-o-seh pol\tIsfahan\n")
    assert read_ratings(data) == [Rating("Brexit", "climate change", 2.5), Rating("Si-o-seh pol", "Isfahan", 0.17)]
    source = WordSimilaritySource(path=f"{tmp_path}/data/{{lang}}.test.data.txt")
    assert source.sources(["en", "de"]) == [data, Location.parse(tmp_path / gold)], "scores are a source too"


def test_the_key_folder_goes_before_a_file_beside_the_data(tmp_path: Path) -> None:
    write(tmp_path / "keys/de-en.test.gold.txt", "1\n")
    write(tmp_path / "data/de-en.test.gold.txt", "2\n")
    assert read_ratings(write(tmp_path / "data/de-en.test.data.txt", "Hund\tdog\n")) == [Rating("Hund", "dog", 1)]


@pytest.mark.parametrize(
    ("text", "ratings"),
    [
        ("cord\tsmile\t0.02\nmidday\tnoon\t3.94\n", [("cord", "smile", 0.02), ("midday", "noon", 3.94)]),
        ("\ufeffcord\tsmile\t0.02\r\nO'Neill\ta \"b\t4\r\n\r\n", [("cord", "smile", 0.02), ("O'Neill", 'a "b', 4)]),
        ("cafe\u0301\tth\u00e9\t3", [("caf\u00e9", "th\u00e9", 3)]),
        ("Word 1,Word 2,Human (mean)\nlove,sex,6.77\n", [("love", "sex", 6.77)]),
        ("word1\tword2\tPOS\tSimLex999\tconc(w1)\tSD(SimLex)\nold\tnew\tA\t1.58\t2.72\t0.41\n", [("old", "new", 1.58)]),
        (
            "ID,Word 1,Word 2,POS,Annotator 1,Annotator 2,Annotator 3\n1,arm,leg,N,1,2,6\n2,a bit,much,R,,4,1\n",
            [("arm", "leg", 3), ("a bit", "much", 2.5)],
        ),
        ('id,WORD_2,WORD_1,annotator 1,Average\n7,leg,"arm, left",6,1.5\n', [("arm, left", "leg", 1.5)]),
        ("ID,ENG,FIN,POS,Score\n1,arm,jalka,N,2.25\n", [("arm", "jalka", 2.25)]),
        ("ID,ENG,FIN,POS tag,ENG-FIN\n1,arm,jalka,N,2.25\n", [("arm", "jalka", 2.25)]),
    ],
    ids=["tabs", "bom-crlf-quotes", "nfc", "wordsim", "simlex", "multi-simlex", "average", "cross-lingual", "one-left"],
)
def test_the_published_layouts(tmp_path: Path, text: str, ratings: list[tuple[str, str, float]]) -> None:
    assert read_ratings(write(tmp_path / "file", text)) == [Rating(*rating) for rating in ratings]


def test_votes_in_another_order_are_tied(tmp_path: Path) -> None:
    header = "Word 1,Word 2,Annotator 1,Annotator 2,Annotator 3\n"
    first, second = read_ratings(write(tmp_path / "file", f"{header}a,b,0.1,0.2,0.3\nc,d,0.3,0.2,0.1\n"))
    assert first.score == second.score


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "cannot tell the words and the score"),
        ("a b 3\n", 1, "cannot tell the words and the score"),
        ("a\tb\tmuch\nc\td\t3\n", 1, "cannot tell the words and the score from the columns a, b, much"),
        ("ID,ENG 1,ENG 2,CMN 1,CMN 2\n1,arm,leg,x,y\n", 1, "cannot tell the words and the score"),
        ("ID,ENG,CMN,POL,RUS\n1,1.5,2,3,4\n", 1, "cannot tell the words and the score"),
        ("ID,ENG,FIN\n1,arm,jalka\n", 1, "cannot tell the words and the score"),
        ("Word 1,Score,Average\na,1,2\n", 1, "cannot tell the words and the score"),
        ("Word 1,Word 2,Score,Mean\na,b,1,2\n", 1, "cannot tell the words and the score"),
        ("a\tb\t1\nc\td\n", 2, "2 columns, but 3 in the first line"),
        ("a\tb\t1\n\nc\td\t2\n", 2, "1 columns, but 3 in the first line"),
        ("a\tb\t1\nc\td\t3,5\n", 2, "the score '3,5' is not a number"),
        ("a\tb\t1\nc\td\t2\ne\tf\tnan\n", 3, "the score 'nan' is not a number"),
        ("a\tb\t1\nc\td\tinf\n", 2, "the score 'inf' is not a number"),
        ("a\tb\t1\nc\td\t\n", 2, "the score '' is not a number"),
        ("a\tb\t1\n \td\t1\n", 2, "a word is missing"),
        ("a\tb\t1\nc\t\t1\n", 2, "a word is missing"),
        ("Word 1,Word 2,Annotator 1,Annotator 2\na,b,1,2\nc,d,,\n", 3, "the score ', ' is not a number"),
        ("Word 1,Word 2,Annotator 1,Annotator 2\na,b,1,many\n", 2, "the score '1, many' is not a number"),
        ('Word 1,Word 2,Score\na,b,1\nc,"d,1\n', 3, "not valid CSV"),
        ("a\tb\nc\td\n", 1, "two columns, but no `*.gold.txt`"),
    ],
)
def test_damaged_files_are_named_with_the_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    location = write(tmp_path / "damaged.data.txt", text)
    with pytest.raises(DataError) as caught:
        read_ratings(location)
    assert caught.value.problem.startswith(f"{location}, line {line}: {problem}") and caught.value.remedy


def test_text_that_is_not_utf8_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\tb\t1\nc\xff\td\t1\n")
    with pytest.raises(DataError, match="file, line 2: not valid UTF-8"):
        read_ratings(Location.parse(tmp_path / "file"))


@pytest.mark.parametrize(
    ("gold", "line", "problem"),
    [
        ("1\n", 1, "has 2 pairs"),
        ("1\n2\n3\n", 3, "has 2 pairs"),
        ("x\n2\n", 1, "score 'x'"),
        ("1\n2,5", 2, "score '2,5'"),
    ],
)
def test_damaged_keys_are_named_with_the_line(tmp_path: Path, gold: str, line: int, problem: str) -> None:
    keys = write(tmp_path / "keys/en.test.gold.txt", gold)
    with pytest.raises(DataError) as caught:
        read_ratings(write(tmp_path / "data/en.test.data.txt", "a\tb\nc\td\n"))
    assert f"{keys}, line {line}: " in caught.value.problem and problem in caught.value.problem


def test_a_file_of_pairs_is_not_its_own_key(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no `\*.gold.txt`"):
        read_ratings(write(tmp_path / "pairs.txt", "a\tb\n"))


def test_the_path_names_one_language_or_two() -> None:
    for path in ("{lang}/a.csv", "{first}-{second}.txt"):
        assert WordSimilaritySource(path=path).missing == "midpoint"
    for path in ("{first}.csv", "{second}.csv", "{lang}-{first}-{second}", "{hub}-{lang}.csv"):
        with pytest.raises(ValidationError, match="in it, or both"):
            WordSimilaritySource(path=path)
    with pytest.raises(ValidationError):
        WordSimilaritySource(path="a.csv", missing="zero")


def test_a_recipe_can_read_the_config_without_torch() -> None:
    code = "import sys, babelray.metrics.word_similarity; sys.exit(bool({'torch', 'scipy'} & sys.modules.keys()))"
    path = str(Path(__file__).parents[2] / "platform")
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False).returncode == 0
