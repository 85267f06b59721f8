import torch

from babelray.evaluation.retrieval import retrieval_accuracy


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
