import math
from unittest.mock import patch

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn.functional import cosine_similarity

from babelray.errors import DataError
from babelray.metrics import geometry
from babelray.metrics.geometry import (
    anisotropy,
    eigenvector_similarity,
    hubness,
    language_identification,
    laplacian_spectrum,
    singular_value_gap,
)

DOUBLE = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def turn(width: int, seed: int = 9) -> Tensor:
    """A random rotation."""
    return torch.linalg.qr(normal(width, width, seed=seed)).Q


def spread_like(values: list[float]) -> Tensor:
    """Centred vectors whose singular values over √N are these: ±√D σ_i e_i."""
    half = torch.diag(torch.tensor(values, dtype=DOUBLE)) * math.sqrt(len(values))
    return torch.cat([half, -half])


# --- language identification


def test_a_language_with_an_offset_of_its_own_is_always_told() -> None:
    offsets = 10 * torch.eye(8, dtype=DOUBLE)
    found = language_identification({code: normal(40, 8, seed=i) + offsets[i] for i, code in enumerate("abcd")})
    assert found == {"accuracy": 1.0, "chance": 0.25, "by_language": dict.fromkeys("abcd", 1.0), "vectors": 40}


@pytest.mark.parametrize(("count", "width"), [(300, 6), (60, 300)])
def test_vectors_that_know_no_language_are_told_by_chance(count: int, width: int) -> None:
    """Also where a probe has more dimensions than vectors, and can learn all those by heart that it is fitted on."""
    accuracy = language_identification({code: normal(count, width, seed=i) for i, code in enumerate("abcd")})[
        "accuracy"
    ]
    deviation = math.sqrt(0.25 * 0.75 / (4 * count))
    assert abs(accuracy - 0.25) < 4 * deviation


@settings(max_examples=15)
@given(st.integers(2, 5), st.integers(6, 30), st.integers(2, 6), st.integers(0, 9))
def test_a_perfectly_neutral_parallel_space_is_at_chance_exactly(langs: int, count: int, folds: int, seed: int) -> None:
    """Whatever the probe answers to a sentence, it is right for one language of all: no fold may part translations."""
    same = normal(count, 12, seed=seed)
    found = language_identification({str(i): same for i in range(langs)}, folds, seed)
    assert found["accuracy"] == pytest.approx(1 / langs) and found["chance"] == 1 / langs


def test_the_probe_is_the_logistic_regression_of_a_library() -> None:
    train = torch.stack([normal(60, 5, seed=i) * torch.arange(1, 6) + 0.5 * normal(5, seed=50 + i) for i in range(3)])
    test = normal(3, 20, 5, seed=7) * torch.arange(1, 6)
    labels = np.repeat(np.arange(3), 60)
    for l2 in (0.1, 10.0):
        scaler = StandardScaler().fit(train.flatten(0, 1).numpy())
        library = LogisticRegression(C=1 / l2, tol=1e-10, max_iter=5000)
        library.fit(scaler.transform(train.flatten(0, 1).numpy()), labels)
        expected = library.predict_proba(scaler.transform(test.flatten(0, 1).numpy()))
        found = geometry._probe(train, test, l2).flatten(0, 1).softmax(1)
        assert np.allclose(found.numpy(), expected, atol=1e-4)
    assert expected.std() > 0.01


def test_every_language_gives_as_many_vectors_and_constant_features_do_no_harm() -> None:
    vectors = {"a": normal(50, 4), "b": normal(500, 4, seed=1) + 9}
    vectors = {
        code: torch.cat([matrix, torch.full((len(matrix), 1), 0.1)], 1).float() for code, matrix in vectors.items()
    }
    assert language_identification(vectors)["vectors"] == 50
    found = language_identification(vectors, most=20)
    assert found["vectors"] == 20 and found["accuracy"] == 1.0
    assert language_identification({"a": torch.ones(9, 3), "b": torch.ones(9, 3)})["accuracy"] == 0.5


def test_a_probe_can_be_fitted_where_torch_records_no_gradients() -> None:
    vectors = {code: normal(30, 3, seed=i) + 2 * i for i, code in enumerate("ab")}
    expected = language_identification(vectors)
    assert expected["accuracy"] > 0.8
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            assert language_identification(vectors) == expected


def test_the_seed_decides() -> None:
    vectors = {code: normal(60, 6, seed=i) + 0.3 * i for i, code in enumerate("abc")}
    results = [language_identification(vectors, seed=seed, most=40) for seed in (1, 1, 2, 3, 4)]
    assert results[0] == results[1]
    assert any(result["by_language"] != results[0]["by_language"] for result in results[2:])


# --- spectra


def test_a_rotated_and_moved_copy_has_no_gap() -> None:
    x = normal(200, 10) * torch.logspace(0, -2, 10, dtype=DOUBLE)
    found = singular_value_gap(x, x @ turn(10) + 5)
    assert found["gap"] == pytest.approx(0, abs=1e-15) and found["dimensions"] == 10
    assert singular_value_gap(x, normal(200, 10))["gap"] > 10


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=6), st.floats(0.1, 10))
def test_the_gap_is_its_definition(values: list[float], factor: float) -> None:
    x, y = spread_like(values), spread_like([1.0] * len(values)) @ turn(len(values))
    assert singular_value_gap(x, y)["gap"] == pytest.approx(sum(math.log(v) ** 2 for v in values), rel=1e-6, abs=1e-9)
    assert singular_value_gap(x, factor * x)["gap"] == pytest.approx(
        len(values) * math.log(factor) ** 2, rel=1e-6, abs=1e-9
    )


def test_effective_rank_and_condition_number_by_hand() -> None:
    # Shares 4/8, 2/8, 1/8, 1/8 have the entropy 7/4 ln 2: the rank is ⌊2^1.75⌋ = ⌊3.36⌋, the condition number 4 / 1.
    found = singular_value_gap(spread_like([4, 2, 1, 1]), spread_like([3, 3, 3, 3]))
    assert (found["source_effective_rank"], found["target_effective_rank"]) == (3, 4)
    assert found["source_effective_condition"] == pytest.approx(4)
    assert found["target_effective_condition"] == pytest.approx(1)
    assert found["effective_condition"] == pytest.approx(2 * 4 * 1 / (4 + 1))


def test_an_isotropic_space_has_full_effective_rank() -> None:
    for width in range(2, 40):
        assert (
            singular_value_gap(spread_like([1.0] * width), spread_like([0.1] * width))["source_effective_rank"] == width
        )


def test_the_number_of_vectors_does_not_count() -> None:
    x, y = normal(300, 5), normal(200, 5, seed=1) * 2
    assert singular_value_gap(x, x.repeat(3, 1))["gap"] == pytest.approx(0, abs=1e-15)
    assert singular_value_gap(x.repeat(4, 1), y)["gap"] == pytest.approx(singular_value_gap(x, y)["gap"])


def test_directions_that_are_empty_up_to_rounding_are_not_compared() -> None:
    """A layer norm leaves every vector without a part in one direction; in single precision it is noise."""
    x, y = normal(400, 16).float(), normal(400, 16, seed=1).float()
    gain, bias = normal(16, seed=2).float(), normal(16, seed=3).float()
    x, y = (torch.nn.functional.layer_norm(side, (16,), gain, bias) for side in (x, y))
    found = singular_value_gap(x, y)
    assert found["dimensions"] == 15 and found["gap"] < 0.5
    few = singular_value_gap(normal(6, 16), normal(400, 16))
    assert few["dimensions"] == 5, "six centred vectors span five directions"


# --- graphs


def test_laplacians_with_known_spectra() -> None:
    star = torch.tensor([[1], [0], [0], [0], [0]])
    assert laplacian_spectrum(star).tolist() == pytest.approx([5, 1, 1, 1, 0], abs=1e-12)
    count = 7
    path = torch.arange(1, count + 1).clamp(max=count - 1).unsqueeze(1)
    path[-1] = count - 2
    expected = [2 - 2 * math.cos(math.pi * j / count) for j in reversed(range(count))]
    assert laplacian_spectrum(path).tolist() == pytest.approx(expected, abs=1e-12)
    cycle = torch.stack([(torch.arange(count) + 1) % count, (torch.arange(count) - 1) % count], 1)
    expected = sorted((2 - 2 * math.cos(2 * math.pi * j / count) for j in range(count)), reverse=True)
    assert laplacian_spectrum(cycle).tolist() == pytest.approx(expected, abs=1e-12)
    complete = torch.tensor([[j for j in range(4) if j != i] for i in range(4)])
    both = torch.cat([complete, complete + 4])
    assert laplacian_spectrum(both).tolist() == pytest.approx([4] * 6 + [0, 0], abs=1e-12)


@settings(max_examples=50)
@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 99))
def test_the_spectrum_by_components_is_that_of_the_whole_matrix(count: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    step = torch.randint(1, count, (count, width), generator=generator)
    neighbours = (torch.arange(count)[:, None] + step) % count
    adjacency = torch.zeros(count, count, dtype=DOUBLE)
    for i, row in enumerate(neighbours.tolist()):
        for j in row:
            adjacency[i, j] = adjacency[j, i] = 1
    expected = torch.linalg.eigvalsh(adjacency.sum(1).diag() - adjacency).flip(0)
    assert torch.allclose(laplacian_spectrum(neighbours), expected, atol=1e-9)


def test_a_rotated_copy_has_the_same_graph() -> None:
    x = normal(300, 10)
    other = eigenvector_similarity(x, normal(300, 10, seed=1) * torch.logspace(0, -2, 10, dtype=DOUBLE), neighbours=3)
    for neighbours in (1, 3):
        assert eigenvector_similarity(x, 3 * x @ turn(10), neighbours=neighbours) < 1e-18
    assert other > 1


def test_the_distance_of_two_graphs_by_hand() -> None:
    """Six words in three couples against six in two stars of three, well apart in both."""
    axes = torch.eye(6, dtype=DOUBLE)
    couples = torch.stack([axes[i] + sign * 0.1 * axes[i + 3] for i in range(3) for sign in (1, -1)])
    stars = torch.stack([axes[i] + off * axes[i + 2] for i in range(2) for off in (0.0, 0.1, -0.1)])
    # Couples have 2, 2, 2, 0, 0, 0 (90 % of 6 takes three), stars 3, 3, 1, 1, 0, 0 (90 % of 8 takes four): k = 3.
    expected = (2 - 3) ** 2 + (2 - 3) ** 2 + (2 - 1) ** 2
    assert eigenvector_similarity(couples, stars) == pytest.approx(expected)
    assert eigenvector_similarity(stars, couples) == pytest.approx(expected)


def test_neighbours_are_those_by_cosine_after_centring_unit_vectors() -> None:
    """Lengths and a common part, which hide neighbours in a raw space, do not count."""
    x, y = ((normal(90, 6, seed=seed) + 3) * normal(90, 1, seed=seed + 5).exp() for seed in (0, 1))
    spectra = []
    for side in (x, y):
        unit = side / side.norm(dim=1, keepdim=True)
        off = unit - unit.mean(0)
        similar = cosine_similarity(off[:, None], off[None], dim=-1).fill_diagonal_(-torch.inf)
        spectra.append(laplacian_spectrum(similar.topk(2).indices))
    k = min(next(i for i in range(91) if s[:i].sum() >= 0.9 * s.sum()) for s in spectra)
    expected = (spectra[0][:k] - spectra[1][:k]).square().sum().item()
    assert eigenvector_similarity(x, y, neighbours=2) == pytest.approx(expected)


def test_only_the_most_frequent_words_are_compared_of_both_the_same_number() -> None:
    x = normal(120, 8)
    assert eigenvector_similarity(x, x[:80] @ turn(8)) < 1e-18, "rows that one side lacks do not count"
    changed = torch.cat([x[:80], normal(40, 8, seed=3)])
    assert eigenvector_similarity(x, changed, words=80) < 1e-18
    assert eigenvector_similarity(x, changed) > 1e-3


# --- hubs


def test_occurrences_and_skewness_are_their_definitions() -> None:
    queries, pool = normal(80, 5), normal(60, 5, seed=1)
    for k in (1, 7):
        order = cosine_similarity(queries[:, None], pool[None], dim=-1).argsort(1, descending=True)[:, :k]
        chosen = np.bincount(order.flatten().numpy(), minlength=60)
        found = hubness(queries, pool, k)
        assert found["skewness"] == pytest.approx(scipy.stats.skew(chosen))
        assert found["antihubs"] == pytest.approx((chosen == 0).mean())


@settings(max_examples=40)
@given(st.integers(5, 40), st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_among_themselves_vectors_are_not_their_own_neighbours(n: int, k: int, seed: int, copies: bool) -> None:
    x = normal(n, 4, seed=seed)
    if copies:
        x[1:3] = x[0]
    similar = cosine_similarity(x[:, None], x[None], dim=-1).fill_diagonal_(-torch.inf)
    found = geometry._others(x, k)
    assert (found != torch.arange(n)[:, None]).all()
    assert torch.allclose(similar.gather(1, found), similar.topk(k).values)
    chosen = np.bincount(found.flatten().numpy(), minlength=n)
    assert hubness(x, k=k)["skewness"] == pytest.approx(scipy.stats.skew(chosen) if chosen.std() else 0)


def test_points_on_a_circle_have_no_hubs_and_a_common_part_makes_them() -> None:
    angles = torch.arange(12, dtype=DOUBLE) * 2 * math.pi / 12
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    assert hubness(circle, k=2) == {"skewness": 0.0, "antihubs": 0.0}
    even, cone = hubness(normal(1000, 100)), hubness(normal(1000, 100) + 1)
    assert cone["skewness"] > even["skewness"] + 1 and cone["antihubs"] > even["antihubs"] + 0.05


# --- directions


@settings(max_examples=40)
@given(st.integers(2, 30), st.integers(2, 8), st.floats(0, 5), st.integers(0, 99))
def test_the_mean_cosine_is_that_of_all_pairs(n: int, width: int, offset: float, seed: int) -> None:
    x = normal(n, width, seed=seed) + offset
    cosines = cosine_similarity(x[:, None], x[None], dim=-1)
    expected = cosines[~torch.eye(n, dtype=torch.bool)].mean().item()
    with patch.object(geometry, "ROWS", 7):
        assert anisotropy(x)["mean_cosine"] == pytest.approx(expected, abs=1e-12)


def isoscore_by_steps(x: np.ndarray) -> float:
    """As the paper's algorithm 1 goes: principal axes, their variances, their length made √D, the defect, the share."""
    width = x.shape[1]
    centred = x - x.mean(0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    variances = np.zeros(width)
    variances[: len(axes)] = (centred @ axes.T).var(0)
    variances *= math.sqrt(width) / np.linalg.norm(variances)
    defect = np.linalg.norm(variances - 1) / math.sqrt(2 * (width - math.sqrt(width)))
    share = (width - defect**2 * (width - math.sqrt(width))) ** 2 / width**2
    return (width * share - 1) / (width - 1)


@settings(max_examples=40)
@given(st.integers(2, 30), st.integers(2, 8), st.floats(0, 3), st.integers(0, 99))
def test_isoscore_is_the_papers_and_the_first_component_that_of_the_decomposition(
    n: int, width: int, slope: float, seed: int
) -> None:
    x = normal(n, width, seed=seed) * torch.logspace(0, -slope, width, dtype=DOUBLE) + 3
    with patch.object(geometry, "ROWS", 11):
        found = anisotropy(x)
    assert found["isoscore"] == pytest.approx(isoscore_by_steps(x.numpy()), abs=1e-9)
    squares = np.linalg.svd(x.numpy() - x.numpy().mean(0), compute_uv=False) ** 2
    assert found["first_component"] == pytest.approx(squares[0] / squares.sum())


def test_a_gaussian_is_isotropic_and_a_cone_is_not() -> None:
    width, count = 20, 20_000
    ball = anisotropy(normal(count, width).float())
    assert abs(ball["mean_cosine"]) < 1e-3 and ball["isoscore"] > 0.98
    assert ball["first_component"] == pytest.approx(1 / width, rel=0.1)
    # Unit vectors at the angle t around an axis: the mean cosine is cos² t, whatever their number.
    t = 0.5
    around = torch.nn.functional.normalize(normal(count, width - 1)) * math.sin(t)
    cone = torch.cat([around, torch.full((count, 1), math.cos(t), dtype=DOUBLE)], 1)
    assert anisotropy(cone)["mean_cosine"] == pytest.approx(math.cos(t) ** 2, abs=1e-3)
    line = anisotropy(torch.arange(9, dtype=DOUBLE)[:, None] * torch.ones(9, 4))
    assert line["first_component"] == pytest.approx(1) and line["isoscore"] == pytest.approx(0, abs=1e-9)


def test_a_collapsed_space_has_the_worst_values() -> None:
    found = anisotropy(torch.full((50, 3), 0.1))
    assert found == {"mean_cosine": pytest.approx(1), "first_component": 1.0, "isoscore": 0.0}
    with_zero = anisotropy(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert with_zero["mean_cosine"] == pytest.approx(1 / 3), "one pair of three has a cosine"


# --- errors

NAN = torch.tensor([[1.0, 2.0], [math.nan, 0.0], [1.0, 1.0]])
FINE = torch.tensor([[1.0, 2.0], [0.5, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: anisotropy(NAN), "row 1 has a number that is infinite or not a number"),
        (lambda: anisotropy(FINE[0]), r"shape \(2,\) is no matrix"),
        (lambda: anisotropy(FINE[:1]), "1 vectors, at least 2"),
        (lambda: anisotropy(FINE[:, :1]), "one direction only"),
        (lambda: singular_value_gap(FINE, NAN), "the second space: row 1"),
        (lambda: singular_value_gap(FINE, torch.rand(3, 4)), "of 2 and of 4 dimensions"),
        (
            lambda: singular_value_gap(torch.full((5, 3), 0.1), torch.rand(5, 3)),
            "first space: all vectors are the same",
        ),
        (lambda: eigenvector_similarity(FINE, FINE, neighbours=2), "3 vectors, at least 4"),
        (lambda: eigenvector_similarity(FINE, FINE, words=2), "2 vectors, at least 3"),
        (lambda: hubness(FINE, FINE, k=3), "k is 3, but a query has 3 vectors"),
        (lambda: hubness(FINE, k=2), "k is 2, but a query has 2 vectors"),
        (lambda: hubness(FINE, NAN, k=1), "the pool: row 1"),
        (lambda: language_identification({"de": FINE}), "vectors of 1 language"),
        (lambda: language_identification({"de": FINE, "fi": FINE}), "de: 3 vectors, at least 5"),
        (lambda: language_identification({"de": FINE, "fi": NAN}, folds=3), "fi: row 1"),
        (lambda: language_identification({"de": FINE, "fi": FINE}, folds=1), "folds is 1"),
        (lambda: language_identification({"de": FINE, "fi": torch.rand(3, 3)}, folds=3), "of 2 and of 3 dimensions"),
        (lambda: language_identification({"de": FINE, "fi": FINE}, folds=3, most=2), "2 vectors of a language for 3"),
    ],
)
def test_what_cannot_be_measured_is_said(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=message):
        call()
