"""How examples are drawn in turn: every one once in an epoch, the same whoever asks and in whatever order."""

from collections import Counter

import pytest
import torch

from babelray.objectives.contrastive import Contrastive, ContrastiveConfig


@pytest.fixture
def objective(training_data) -> Contrastive:
    training_data.languages = ["en", "de", "fr"]
    pairs = {"de": (["a", "b", "c"], ["x", "y", "z"]), "fr": (["d", "e"], ["x", "w"])}
    training_data.dictionary = lambda code: pairs[code]
    return Contrastive(ContrastiveConfig(pairs="words", batch_size=2, sampling="epochs"), training_data)


def test_all_examples_come_once_before_any_comes_again(objective: Contrastive) -> None:
    assert objective.count == 5
    drawn = [example for step in range(5) for example in objective.examples(step)]
    assert Counter(drawn[:5]) == Counter(drawn[5:]) == Counter([("de", 0), ("de", 1), ("de", 2), ("fr", 0), ("fr", 1)])
    assert drawn[:5] != drawn[5:], "each epoch has its own order"
    assert objective.examples(3) == drawn[6:8], "a run that resumes draws what it would have drawn"


def test_a_batch_larger_than_the_dictionary_repeats_entries_which_are_no_negatives(training_data) -> None:
    training_data.dictionary = lambda code: (["Katze"], ["cat"])
    config = ContrastiveConfig(pairs="words", batch_size=4, sampling="epochs", hard_negatives=2)
    objective = Contrastive(config, training_data)
    objective.start(torch.device("cpu"))
    assert objective.examples(0) == [("de", 0)] * 4
    global_context = objective.global_context(0)
    assert global_context["same"].all() and global_context["forward"].all(), "one entry has nothing to be told from"
    loss_terms = objective.global_terms(torch.randn(4, 4, 8), global_context)
    assert torch.allclose(loss_terms, torch.zeros(4), atol=1e-6)
