import math
from pathlib import Path

import numpy as np
import ot
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from babelray.encoder.text_encoder import TextEncoder
from babelray.errors import BabelrayError, DataError
from babelray.evaluation.mt_quality import (
    CrossLingualProjection,
    MismatchRemoval,
    Segment,
    correlations,
    idf_weights,
    mt_scores,
    ngrams,
    read_segments,
    word_mover_distances,
)
from babelray.storage import Location

SOURCES = ["Die Katze schläft auf dem warmen Bett.", "Ein Hund läuft im Garten.", "猫在床上睡觉。"]
TRANSLATIONS = ["The cat sleeps on the bed.", "A big dog runs in the warm garden, the cat too.", "The cat."]
SOURCE_TOKENS = [["Die", "Katze", "schläft", "auf", "dem", "warmen", "Bett", "."], ["Ein", "Hund"], ["猫", "在", "床"]]
TRANSLATION_TOKENS = [["The", "cat", "sleeps"], ["A", "big", "dog", "runs", "cat"], ["The", "cat", "."]]
HEADER = "LP\tsource\ttranslation\treference\tHUMAN_score\tsentBLEU\n"


def sentences(sizes: list[int], generator: torch.Generator, width: int = 6) -> list[torch.Tensor]:
    return [torch.randn(size, width, generator=generator) for size in sizes]


def euclidean(x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    return (x.double()[:, None] - y.double()[None]).square().sum(2).sqrt().numpy()


sizes = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5)


@settings(max_examples=60)
@given(sizes, st.sampled_from(["none", "positive", "some zero"]), st.integers(0, 10_000))
def test_the_distance_is_that_of_pot(sizes: list[tuple[int, int]], kind: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = (sentences([pair[side] for pair in sizes], generator) for side in (0, 1))
    a, b = ([torch.rand(len(words), generator=generator) + 0.01 for words in side] for side in (x, y))
    if kind == "none":
        a, b = ([torch.ones(len(words)) for words in side] for side in (x, y))
    if kind == "some zero":
        for weights in (*a, *b):
            weights[1:][torch.rand(len(weights) - 1, generator=generator) < 0.4] = 0
    found = word_mover_distances(x, y, None if kind == "none" else (a, b))
    shares = [[(weights.double() / weights.double().sum()).numpy() for weights in side] for side in (a, b)]
    expected = [ot.emd2(a_S, b_T, euclidean(*xy)) for *xy, a_S, b_T in zip(x, y, *shares, strict=True)]
    assert found.dtype == torch.double and found.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("shape", [(50, 50), (50, 41), (7, 90)])
def test_the_distance_of_long_sentences_is_that_of_pot(shape: tuple[int, int]) -> None:
    x, y = sentences(list(shape), torch.Generator().manual_seed(1), width=64)
    expected = ot.emd2(ot.unif(len(x)), ot.unif(len(y)), euclidean(x, y))
    assert word_mover_distances([x], [y]).item() == pytest.approx(expected, abs=1e-6)


def test_only_the_ratio_of_weights_counts_and_all_zero_counts_as_alike() -> None:
    x, y = sentences([4, 4], torch.Generator().manual_seed(2))
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0])
    once, thrice, zero, alike = word_mover_distances(
        [x] * 4,
        [y] * 4,
        ([weights, 3 * weights, 0 * weights, weights * 0 + 7], [weights, weights, 0 * weights, weights * 0 + 1]),
    ).tolist()
    assert once == pytest.approx(thrice) and zero == pytest.approx(alike)
    assert once != pytest.approx(alike, abs=1e-3)


def test_a_sentence_in_another_order_is_at_no_distance() -> None:
    (x,) = sentences([12], torch.Generator().manual_seed(3), width=256)
    assert word_mover_distances([x], [x.flip(0)]).item() == 0
    twice = word_mover_distances([x], [x.repeat(2, 1)])
    assert twice.item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("solver", ["exact", "sinkhorn"])
def test_an_empty_side_is_infinitely_far(solver) -> None:
    x, none = torch.eye(3), torch.zeros(0, 3)
    found = word_mover_distances([x, none, x, none], [none, x, x, none], solver=solver).tolist()
    assert found == pytest.approx([math.inf, math.inf, 0, math.inf], abs=1e-3)
    assert word_mover_distances([], [], solver=solver).shape == (0,)


def test_sinkhorn_comes_near_the_exact_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("babelray.evaluation.mt_quality.PAIRS", 3)  # more than one batch, the last not full
    generator = torch.Generator().manual_seed(4)
    x = [normalize(words) for words in sentences([3, 20, 8, 31, 1, 12, 5], generator, width=32)]
    y = [normalize(words) for words in sentences([5, 20, 2, 17, 9, 1, 5], generator, width=32)]
    exact = word_mover_distances(x, y)
    near = (word_mover_distances(x, y, solver="sinkhorn") - exact).abs().max()
    rough = (word_mover_distances(x, y, solver="sinkhorn", blur=0.5) - exact).abs().max()
    assert near < 0.01 < rough


def test_what_has_no_distance() -> None:
    x, weights = torch.eye(2), torch.tensor([1.0, 2.0])
    with pytest.raises(DataError, match="2 sources, but 1 translations"):
        word_mover_distances([x, x], [x])
    with pytest.raises(DataError, match=r"vectors of \[2, 3\] dimensions"):
        word_mover_distances([x], [torch.eye(3)])
    with pytest.raises(DataError, match="a vector is not finite"):
        word_mover_distances([x], [x / 0])
    for wrong in (torch.tensor([1.0, -1.0]), torch.tensor([1.0, math.nan]), torch.ones(3)):
        with pytest.raises(DataError, match="2 words cannot have the weights"):
            word_mover_distances([x], [x], ([weights], [wrong]))
    with pytest.raises(BabelrayError, match="weighs all words alike"):
        word_mover_distances([x], [x], ([weights], [weights]), solver="sinkhorn")


def test_ngrams_by_hand() -> None:
    vectors, weights = (
        torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 4.0], [2.0, 0.0]]),
        torch.tensor([1.0, 3.0, 1.0, 0.0]),
    )
    pairs, sums = ngrams(vectors, weights, 2)
    assert pairs.tolist() == [[0.25, 0.75], [1.0, 1.75], [4.0, 4.0]] and sums.tolist() == [4.0, 4.0, 1.0]
    alike, ones = ngrams(vectors, torch.ones(4), 3)
    assert torch.allclose(alike, torch.tensor([[5 / 3, 5 / 3], [2.0, 5 / 3]])) and ones.tolist() == [3.0, 3.0]
    words, same = ngrams(vectors, weights, 1)
    assert words.tolist() == vectors.tolist() and same.tolist() == weights.tolist()


def test_ngrams_of_few_words_and_of_words_without_weight() -> None:
    vectors = torch.tensor([[2.0], [4.0]])
    whole, weight = ngrams(vectors, torch.tensor([3.0, 1.0]), 5)
    assert whole.tolist() == [[2.5]] and weight.tolist() == [4.0]
    whole, weight = ngrams(vectors, torch.zeros(2), 2)
    assert whole.tolist() == [[3.0]] and weight.tolist() == [0.0]
    none, nothing = ngrams(torch.zeros(0, 7), torch.zeros(0), 2)
    assert none.shape == (0, 7) and nothing.shape == (0,)


def test_idf_by_hand() -> None:
    """A word counts once a sentence: of 4 sentences 4 have `the`, 1 has `dog`, which stands twice there."""
    found = idf_weights([["the", "dog", "dog"], ["the"], ["the"], ["the", "cat"]])
    assert [len(weights) for weights in found] == [3, 1, 1, 2]
    assert found[0].tolist() == pytest.approx([0, math.log(5 / 2), math.log(5 / 2)]) and found[1].tolist() == [0]


def aligned(pairs: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of words, and a rotation."""
    generator = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.double))[0].float()
    return torch.randn(pairs, width, generator=generator), turn


def test_the_projection_finds_a_rotation() -> None:
    words, turn = aligned(40, 8, seed=5)
    for orthogonal in (True, False):
        fitted = CrossLingualProjection.fit(words, words @ turn, orthogonal)
        assert torch.allclose(fitted.matrix_DD, turn, atol=1e-5)
    new, _ = aligned(5, 8, seed=6)
    assert torch.allclose(fitted.source(new), new @ turn, atol=1e-5) and fitted.target(new) is new


def test_the_projection_of_pairs_that_no_rotation_fits() -> None:
    words, _ = aligned(40, 8, seed=7)
    target, _ = aligned(40, 8, seed=8)
    turned, stretched = (
        CrossLingualProjection.fit(words, target, orthogonal).matrix_DD for orthogonal in (True, False)
    )
    assert np.allclose(turned, scipy.linalg.orthogonal_procrustes(words, target)[0], atol=1e-5)
    assert np.allclose(stretched, np.linalg.lstsq(words, target)[0], atol=1e-5)
    few = CrossLingualProjection.fit(words[:3], target[:3], orthogonal=False)
    assert torch.allclose(few.source(words[:3]), target[:3], atol=1e-5)


def planted() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Aligned words that differ by 3 v, the same for all, and by noise that varies more than that in no direction."""
    generator = torch.Generator().manual_seed(9)
    meaning, noise = (torch.randn(500, 6, generator=generator) for _ in range(2))
    bias = normalize(torch.randn(1, 6, generator=generator))
    return meaning + 2 * bias + 0.5 * noise, meaning - bias, bias


def test_the_direction_of_a_planted_bias_is_removed() -> None:
    source, target, bias = planted()
    fitted = MismatchRemoval.fit(source, target)
    assert (fitted.directions_KD @ bias.T).abs().item() == pytest.approx(1, abs=1e-3)
    v = fitted.directions_KD[0]
    found = fitted.source(10 * source)
    assert torch.allclose(found @ v, torch.zeros(500), atol=1e-4)
    removed = 10 * source - found
    assert torch.allclose(removed, (removed @ v)[:, None] * v, atol=1e-4)
    before, after = (
        (source - target).norm(dim=1).mean(),
        (fitted.source(source) - fitted.target(target)).norm(dim=1).mean(),
    )
    assert after < 0.5 * before
    assert torch.equal(fitted.target(target), fitted.source(target))
    assert MismatchRemoval.fit(source, target, both=False).target(target) is target


def test_a_mismatch_is_not_what_varies_most() -> None:
    """All pairs differ by 3 in one direction, and by ±2 in another: the mean counts, so that it is the first."""
    target = torch.randn(100, 4, generator=torch.Generator().manual_seed(10))
    shift = torch.tensor([[3.0, 2.0, 0, 0], [3.0, -2.0, 0, 0]]).repeat(50, 1)
    directions = MismatchRemoval.fit(target + shift, target, count=2).directions_KD
    assert torch.allclose(directions.abs(), torch.eye(4)[:2], atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_several_directions_are_singular_vectors(count: int) -> None:
    source, target, _ = planted()
    fitted = MismatchRemoval.fit(source, target, count)
    _, _, vt = np.linalg.svd((source - target).double().numpy())
    assert np.allclose(np.abs(fitted.directions_KD @ vt[:count].T), np.eye(count), atol=1e-4)
    kept = torch.eye(6, dtype=torch.double) - torch.from_numpy(vt[:count].T @ vt[:count])
    assert torch.allclose(fitted.source(source).double(), source.double() @ kept, atol=1e-4)


@pytest.mark.parametrize("fit", [CrossLingualProjection.fit, MismatchRemoval.fit])
def test_what_no_correction_can_be_fitted_on(fit) -> None:
    some = torch.randn(5, 3, generator=torch.Generator().manual_seed(11))
    for left, right in ((some, some[:4]), (some[:, :2], some), (some[:0], some[:0]), (some[0], some[0])):
        with pytest.raises(DataError, match="vectors of aligned words have the shapes"):
            fit(left, right)
    with pytest.raises(DataError, match="not finite"):
        fit(some, some / 0)


def test_what_no_mismatch_can_be_found_in() -> None:
    some = torch.randn(5, 3, generator=torch.Generator().manual_seed(12))
    with pytest.raises(DataError, match="the same vectors on both sides"):
        MismatchRemoval.fit(some, some)
    for count in (0, 4):
        with pytest.raises(
            DataError, match=rf"{count} directions cannot be found in differences of the shape \(5, 3\)"
        ):
            MismatchRemoval.fit(some, -some, count)


@pytest.mark.parametrize("level", ["words", "subwords"])
@pytest.mark.parametrize(
    ("ngram", "idf", "corrected"), [(1, False, ""), (2, True, "clp"), (2, False, "umd"), (1, True, "")]
)
def test_scores_by_hand(tiny_encoder: str, level: str, ngram: int, idf: bool, corrected: str) -> None:
    """Each step on its own: vectors of the encoder, the correction, means of neighbours, unit length, POT."""
    encoder = TextEncoder.from_pretrained(tiny_encoder, layer=1)
    left, right = aligned(50, 32, seed=13)[0], aligned(50, 32, seed=14)[0]
    corrections = {"clp": CrossLingualProjection.fit(left, right), "umd": MismatchRemoval.fit(left, right, 3)}
    correction = corrections.get(corrected)
    sides = []
    for texts, tokens, side in ((SOURCES, SOURCE_TOKENS, "source"), (TRANSLATIONS, TRANSLATION_TOKENS, "target")):
        if level == "words":
            cut, vectors = tokens, [words for _, words in encoder.words(texts, tokens)]
        else:
            found = encoder.subwords(texts)
            cut = [[text[a:b] for a, b in spans.tolist()] for text, (spans, _) in zip(texts, found, strict=True)]
            vectors = [subwords for _, subwords in found]
        grams, weights = [], []
        for words, hidden in zip(cut, vectors, strict=True):
            moved = getattr(correction, side)(hidden) if correction else hidden
            have = [sum(word in other for other in cut) for word in words]
            w = torch.tensor([math.log(4 / (1 + m)) if idf else 1.0 for m in have])
            spans = [slice(i, i + ngram) for i in range(len(words) - ngram + 1)]
            grams.append([(w[s, None] * moved[s]).sum(0) / w[s].sum() for s in spans if w[s].sum() > 0])
            weights.append([float(w[s].sum()) for s in spans if w[s].sum() > 0])
        sides.append([(normalize(torch.stack(g)), np.array(w) / sum(w)) for g, w in zip(grams, weights, strict=True)])
    expected = [1 - ot.emd2(a, b, euclidean(x, y)) for (x, a), (y, b) in zip(*sides, strict=True)]
    given = (SOURCE_TOKENS, TRANSLATION_TOKENS) if level == "words" else ()
    found = mt_scores(encoder, SOURCES, TRANSLATIONS, *given, ngram=ngram, correction=correction, idf=idf)
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_the_options_matter(tiny_encoder: str) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    plain = mt_scores(encoder, SOURCES, TRANSLATIONS)
    clp = CrossLingualProjection(aligned(1, 32, seed=15)[1])
    for options in ({"ngram": 2}, {"idf": True}, {"correction": clp}):
        assert (mt_scores(encoder, SOURCES, TRANSLATIONS, **options) - plain).abs().max() > 1e-3
    sinkhorn = mt_scores(encoder, SOURCES, TRANSLATIONS, solver="sinkhorn")
    assert 0 < (sinkhorn - plain).abs().max() < 0.02


def test_the_best_and_the_worst_translation(tiny_encoder: str) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    text = SOURCES[0]
    same, other, none, nothing = mt_scores(encoder, [text, text, text, ""], [text, TRANSLATIONS[0], "", ""]).tolist()
    assert same == pytest.approx(1, abs=1e-5) and -1 < other < 0.99 and none == nothing == -1
    assert mt_scores(encoder, ["", text], [text, text], [[], [text]], [[text], [text]]).tolist() == pytest.approx(
        [-1, 1]
    )
    assert mt_scores(encoder, [], []).shape == (0,)


def test_a_bias_between_languages_costs_until_it_is_removed(tiny_encoder: str) -> None:
    """The source is the translation itself, in an encoder that adds the same vector to all words of the source."""
    sources, bias = list(TRANSLATIONS), 5 * torch.eye(32)[3]

    class Biased(TextEncoder):
        def subwords(self, texts):
            return [(spans, vectors + bias * (texts is sources)) for spans, vectors in super().subwords(texts)]

    encoder = Biased.from_pretrained(tiny_encoder)
    left, right = (torch.cat([words for _, words in encoder.subwords(texts)]) for texts in (sources, TRANSLATIONS))
    assert mt_scores(encoder, sources, TRANSLATIONS).max() < 0.7
    removed = mt_scores(encoder, sources, TRANSLATIONS, correction=MismatchRemoval.fit(left, right))
    assert removed.tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    as_the_script = mt_scores(encoder, sources, TRANSLATIONS, correction=MismatchRemoval.fit(left, right, both=False))
    assert as_the_script.min() > 0.7 and as_the_script.max() < 0.99


def test_what_cannot_be_scored(tiny_encoder: str) -> None:
    encoder = TextEncoder.from_pretrained(tiny_encoder)
    with pytest.raises(DataError, match="3 sources, but 2 translations"):
        mt_scores(encoder, SOURCES, TRANSLATIONS[:2])
    with pytest.raises(DataError, match="3 texts, but 2 lists of tokens"):
        mt_scores(encoder, SOURCES, TRANSLATIONS, SOURCE_TOKENS, TRANSLATION_TOKENS[:2])
    with pytest.raises(BabelrayError, match="no n-grams of 0 words"):
        mt_scores(encoder, SOURCES, TRANSLATIONS, ngram=0)


def test_correlations_by_hand() -> None:
    # Of 6 pairs one is in the wrong order: τ = 4 / 6. Σd² = 2: ρ = 1 − 12 / 60, and r is the same of ranks.
    found = correlations(torch.tensor([1.0, 2, 3, 4]), [1, 3, 2, 4])
    assert found == pytest.approx({"pearson": 0.8, "kendall": 2 / 3, "spearman": 0.8})
    # One tie on each side, four pairs in order: τ-b = 4 / √(5 · 5). Ranks −1, −1, ½, 1½ and −1½, −½, 1, 1: ρ = 4 / 4.5.
    tied = correlations([1.0, 1.0, 2.0, 30.0], [1.0, 2.0, 3.0, 3.0])
    assert tied["kendall"] == pytest.approx(0.8) and tied["spearman"] == pytest.approx(4 / 4.5)
    # Deviations −7.5, −7.5, −6.5, 21.5 and −1¼, −¼, ¾, ¾: covariance 22.5, squares 617 and 2.75.
    assert tied["pearson"] == pytest.approx(22.5 / math.sqrt(617 * 2.75))


def test_where_there_is_no_correlation() -> None:
    zero = {"pearson": 0, "kendall": 0, "spearman": 0}
    assert correlations([1.0, 1.0], [0.0, 1.0]) == correlations([0.0, 1.0], [1.0, 1.0]) == correlations([], []) == zero
    with pytest.raises(DataError, match="2 scores, but 1 human judgements"):
        correlations([1.0, 2.0], [1.0])


def write(tmp_path: Path, text: str) -> Location:
    (tmp_path / "testset_de-en.tsv").write_bytes(text.encode())
    return Location.parse(tmp_path / "testset_de-en.tsv")


def test_the_published_layout(tmp_path: Path) -> None:
    text = HEADER + (
        "de-en\tEin Hund.\ta dog &apos;s R&amp;D .\ta dog .\t-1.25\t0.5\n"
        'de-en\t"Er sagte: ""Nein &amp; nie""."\the said &quot; no &quot; &#91; &copy\tno\t0.75\t0.25\n'
        "de-en\tJa.\t\tyes\t0\t0\n"
    )
    assert read_segments(write(tmp_path, text)) == [
        Segment("de-en", "Ein Hund.", "a dog 's R&D .", -1.25, 0.5),
        Segment("de-en", 'Er sagte: "Nein &amp; nie".', 'he said " no " [ &copy', 0.75, 0.25),
        Segment("de-en", "Ja.", "", 0, 0),
    ]


def test_columns_in_another_order_and_a_file_from_elsewhere(tmp_path: Path) -> None:
    text = "\ufeffHUMAN_score\ttranslation\tLP\tsource\r\n1.5\tcafe\u0301\tfi-en\tKahvila\u2028tai\r\n\r\n"
    assert read_segments(write(tmp_path, text)) == [Segment("fi-en", "Kahvila\u2028tai", "caf\u00e9", 1.5, None)]


LINE = "de-en\tJa.\tyes .\tyes\t1\t0.5\n"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "no column LP, source, translation, HUMAN_score among ''"),
        (LINE, 1, "no column LP, source, translation, HUMAN_score among 'de-en, Ja., yes ."),
        ("LP source translation HUMAN_score\n", 1, "no column LP, source"),
        ("LP\tsource\ttranslation\tscore\n" + LINE, 1, "no column HUMAN_score among 'LP, source, translation, score'"),
        (HEADER, 1, "there are no segments"),
        (HEADER + LINE + "de-en\tJa.\tyes\n", 3, "3 columns, but 6 in the first line"),
        (HEADER + "\n" + LINE, 2, "0 columns, but 6 in the first line"),
        (HEADER + LINE + LINE.replace("\t1\t", "\t1,5\t"), 3, "'1,5' in column 'HUMAN_score' is not a number"),
        (HEADER + LINE.replace("\t1\t", "\t\t"), 2, "'' in column 'HUMAN_score' is not a number"),
        (HEADER + LINE.replace("\t1\t", "\tinf\t"), 2, "'inf' in column 'HUMAN_score' is not a number"),
        (HEADER + LINE.replace("0.5", "nan"), 2, "'nan' in column 'sentBLEU' is not a number"),
        (HEADER + LINE + LINE.replace("Ja.", " "), 3, "the source is missing"),
        (HEADER + LINE + LINE.replace("Ja.", '"Ja'), 3, "not valid CSV"),
    ],
)
def test_damaged_files_are_named_with_the_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    location = write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_segments(location)
    assert caught.value.problem.startswith(f"{location}, line {line}: {problem}") and caught.value.remedy
