import math
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from babelray.errors import DataError
from babelray.metrics import retrieval
from babelray.metrics.retrieval import correct_translations, groups_of, retrieval_accuracy, retrieve
from babelray.vectors import retrieval as search

SCORINGS = ["cosine", "csls", "margin"]
ENGLISH = [
    "The cat sleeps on the warm bed.",
    "A dog runs in the big garden.",
    "The dog sleeps.",
    "A big cat runs in the garden.",
    "The bed in the garden is warm.",
    "A dog on the bed.",
    "The warm garden runs.",
]


def test_directions_are_counted_apart() -> None:
    source = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    target = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.7, 0.7]])
    scores = retrieval_accuracy(source, target)
    assert scores["to_hub"] == torch.tensor(2 / 3).item()
    assert scores["from_hub"] == torch.tensor(2 / 3).item()
    assert scores["mean"] == (scores["to_hub"] + scores["from_hub"]) / 2


def test_random_vectors_are_at_chance() -> None:
    torch.manual_seed(0)
    assert retrieval_accuracy(torch.randn(500, 32), torch.randn(500, 32))["mean"] < 0.02


def by_definition(source: Tensor, target: Tensor, scoring: str, k: int) -> Tensor:
    """The scores of all pairs, one by one, as the papers write them."""
    cosine = [[float(x @ y / (x.norm() * y.norm())) for y in target] for x in source]
    near_x = [sum(sorted(row, reverse=True)[:k]) / min(k, len(row)) for row in cosine]
    near_y = [sum(sorted(row, reverse=True)[:k]) / min(k, len(row)) for row in zip(*cosine, strict=True)]
    scores = torch.zeros(len(source), len(target), dtype=torch.float64)
    for i, row in enumerate(cosine):
        for j, value in enumerate(row):
            if scoring == "csls":
                value = 2 * value - near_x[i] - near_y[j]
            elif scoring == "margin":
                value = value / max(retrieval.FLOOR, (near_x[i] + near_y[j]) / 2)
            scores[i, j] = value
    return scores


def check(answers: retrieval.Answers, scores: Tensor, labels: list[int]) -> None:
    """Positions, hits and margins against a loop over the sentences."""
    for i, row in enumerate(scores.tolist()):
        gold = max(value for value, label in zip(row, labels, strict=True) if label == labels[i])
        others = [value for value, label in zip(row, labels, strict=True) if label != labels[i]]
        assert answers.positions_N[i] == row.index(max(row))
        assert answers.correct_N[i] == (labels[row.index(max(row))] == labels[i])
        assert math.isclose(answers.margins_N[i], gold - max(others, default=-math.inf), abs_tol=1e-9)


@settings(max_examples=60)
@given(st.data())
def test_every_answer_is_that_of_the_definition_whatever_the_tiles(data: st.DataObject) -> None:
    count, scoring = data.draw(st.integers(1, 34)), data.draw(st.sampled_from(SCORINGS))
    labels = st.lists(st.integers(0, 20), min_size=count, max_size=count)
    groups = data.draw(st.none() | st.tuples(labels, labels))
    k, rows = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    torch.manual_seed(data.draw(st.integers(0, 99)))
    common = data.draw(st.sampled_from([0, 1]))  # without it cosines are negative as often as not
    source, target = common + torch.randn(2, count, 5, dtype=torch.float64)
    with patch.object(retrieval, "CELLS", rows * count), patch.object(search, "CELLS", rows * 64):
        found = retrieve(source, target, scoring, groups, k)
    scores = by_definition(source, target, scoring, k)
    own = list(range(count))
    check(found.to_hub, scores, groups[1] if groups else own)
    check(found.from_hub, scores.T, groups[0] if groups else own)


@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("groups", [None, (groups_of("abacad" * 10), groups_of("abcdaf" * 10))])
def test_the_accuracy_is_the_share_of_hits(scoring, groups) -> None:
    torch.manual_seed(3)
    source = torch.randn(60, 8)
    target = source + 0.9 * torch.randn(60, 8)
    k = {"cosine": 1, "csls": 10, "margin": 4}[scoring]
    scores = by_definition(source.double(), target.double(), scoring, k)
    example_scores = [
        [int(labels[int(row.argmax())] == labels[i]) for i, row in enumerate(matrix)]
        for matrix, labels in zip((scores, scores.T), (groups or (range(60), range(60)))[::-1], strict=True)
    ]
    to_hub, from_hub = (torch.tensor(sum(some) / 60).item() for some in example_scores)
    assert 0.2 < to_hub < 1 and example_scores[0] != example_scores[1]
    expected = {"to_hub": to_hub, "from_hub": from_hub, "mean": (to_hub + from_hub) / 2}
    assert retrieval_accuracy(source, target, scoring, groups) == expected
    found = retrieve(source, target, scoring, groups)
    assert [found.predictions()[side]["example_scores"] for side in ("to_hub", "from_hub")] == example_scores
    metrics = found.metrics()
    assert metrics.items() >= expected.items()
    assert metrics["error_to_hub"] == 1 - to_hub and metrics["error_from_hub"] == 1 - from_hub
    assert metrics["error"] == 1 - expected["mean"]


def test_a_worked_example_in_the_plane() -> None:
    """Sentences at 0° and 40°, translations at 20° and 70°: the first translation is near to both sentences."""
    cos = {angle: math.cos(math.radians(angle)) for angle in (20, 30, 70)}
    source, target = (
        torch.tensor([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in angles], dtype=torch.float64)
        for angles in ((0, 40), (20, 70))
    )
    near_source = (cos[20] + cos[70]) / 2, (cos[20] + cos[30]) / 2
    near_target = cos[20], (cos[70] + cos[30]) / 2
    expected = {
        "cosine": ([0, 0], [cos[20] - cos[70], cos[30] - cos[20]]),
        "csls": (
            [0, 1],
            [
                2 * (cos[20] - cos[70]) - near_target[0] + near_target[1],
                2 * (cos[30] - cos[20]) - near_target[1] + near_target[0],
            ],
        ),
        "margin": (
            [0, 1],
            [
                2 * cos[20] / (near_source[0] + near_target[0]) - 2 * cos[70] / (near_source[0] + near_target[1]),
                2 * cos[30] / (near_source[1] + near_target[1]) - 2 * cos[20] / (near_source[1] + near_target[0]),
            ],
        ),
    }
    for scoring, (positions, margins) in expected.items():
        answers = retrieve(source, target, scoring, neighbours=2).to_hub
        assert answers.positions_N.tolist() == positions
        assert answers.margins_N.tolist() == pytest.approx(margins)
        assert answers.mean_margin == pytest.approx(sum(margins) / 2)
    assert expected["cosine"][1][1] < 0 < expected["margin"][1][1]


def test_the_mean_margin_is_that_of_both_directions() -> None:
    source, target = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    metrics = retrieve(source, target).metrics()
    assert metrics["mean_margin"] == pytest.approx(((1 - 0.6) + (0.8 - 0) + (1 - 0) + (0.8 - 0.6)) / 4)


def test_where_all_vectors_are_alike_one_sentence_is_right() -> None:
    """An encoder that has collapsed must not look perfect."""
    source = torch.ones(10, 4)
    for scoring in SCORINGS:
        found = retrieve(source, source, scoring)
        assert found.to_hub.positions_N.tolist() == [0] * 10
        assert found.metrics()["mean"] == pytest.approx(0.1) and found.metrics()["mean_margin"] == 0


def test_a_sentence_that_occurs_twice_is_right_at_either_place() -> None:
    torch.manual_seed(0)
    hub = torch.randn(4, 8)[[0, 1, 2, 3, 1, 2]]
    source = hub + 0.01 * torch.randn(6, 8)
    strict, either = retrieve(source, hub), retrieve(source, hub, groups=(range(6), [0, 1, 2, 3, 1, 2]))
    assert strict.to_hub.correct_N.tolist() == [True] * 4 + [False] * 2
    assert strict.to_hub.margins_N[[1, 2, 4, 5]].tolist() == [0.0] * 4
    assert either.to_hub.correct_N.all() and (either.to_hub.margins_N > 0).all()
    assert torch.equal(strict.to_hub.positions_N, either.to_hub.positions_N)
    assert either.from_hub.correct_N.float().mean() == strict.from_hub.correct_N.float().mean() < 1


def test_a_single_sentence_has_no_other_candidate() -> None:
    found = retrieve(torch.ones(1, 3), torch.ones(1, 3), "margin")
    assert found.to_hub.margins_N.tolist() == [math.inf]
    assert found.metrics()["mean"] == 1 and found.metrics()["mean_margin"] == 0


@pytest.mark.parametrize("scoring", SCORINGS)
def test_a_vector_of_zeros_breaks_nothing_and_one_of_no_numbers_is_an_error(scoring) -> None:
    source, target = torch.eye(6), torch.eye(6)
    source[1] = 0
    found = retrieve(source, target, scoring)
    assert found.to_hub.correct_N[[0, 2, 3, 4, 5]].all() and math.isfinite(found.metrics()["mean_margin"])
    for value in (math.nan, math.inf):
        source[3, 2] = value
        for sides in ((source, target), (target, source)):
            with pytest.raises(DataError, match="the vectors of 1 of 6 sentences are not numbers"):
                retrieve(*sides, scoring)


class Largest(TorchDispatchMode):
    """Looks for the largest tensor that comes out of anything."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor):
                self.cells = max(self.cells, tensor.numel())
        return result


@pytest.mark.parametrize("scoring", SCORINGS)
def test_memory_is_bounded_however_many_sentences_there_are(scoring) -> None:
    torch.manual_seed(0)
    source, target = torch.randn(2, 320, 4)
    with Largest() as whole:
        expected = retrieve(source, target, scoring)
    assert whole.cells == 320 * 320
    with patch.object(retrieval, "CELLS", 3200), patch.object(search, "CELLS", 3200), Largest() as tiled:
        found = retrieve(source, target, scoring)
    assert 3200 <= tiled.cells <= 2 * 3200
    assert found.predictions() == expected.predictions()


def test_sides_that_do_not_fit() -> None:
    three, four = torch.ones(3, 2), torch.ones(4, 2)
    for measure in (retrieve, retrieval_accuracy):
        with pytest.raises(DataError, match="3 sentences and 4 translations"):
            measure(three, four)
        with pytest.raises(DataError, match="0 sentences and 0 translations"):
            measure(three[:0], three[:0])
        with pytest.raises(DataError, match="3 sentences and 3 translations, in groups of 3 and 2"):
            measure(three, three, "cosine", ([0, 1, 2], [0, 1]))


def test_which_sentences_find_their_translation() -> None:
    source, target = torch.eye(3), torch.eye(3)[[0, 1, 1]]
    there, back = correct_translations(source, target)
    accuracy = retrieval_accuracy(source, target)
    assert there.tolist()[:2] == [True, True] and not there[2]
    assert accuracy["to_hub"] == there.float().mean().item() and accuracy["from_hub"] == back.float().mean().item()
