from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.encoder.pool import (
    length_groups,
    mean_by_length,
    mean_pool,
    read_by_length,
    token_budget_batches,
)
from babelray.encoder.scratch import ArchitectureConfig, static_encoder


def test_mean_pool_ignores_what_is_masked() -> None:
    hidden = torch.tensor([[[1.0], [3.0], [100.0]], [[5.0], [7.0], [9.0]]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    assert mean_pool(hidden, mask).tolist() == [[2.0], [0.0]]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(50, 200))
def test_batches_hold_everything_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(token_budget_batches(lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[i] for i in batch) <= budget for batch in batches)


def _batch(encoder: str) -> tuple[torch.Tensor, torch.Tensor]:
    """97 texts of different lengths."""
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(["cat", "sleeps", "Garten", "猫"], size=count)) for count in [1] * 90 + [9] * 7]
    shuffled = [texts[i] for i in generator.permutation(len(texts))]
    encoded = load_tokenizer(encoder)(shuffled, padding=True, return_tensors="pt")
    return encoded["input_ids"], encoded["attention_mask"]


@pytest.mark.parametrize("training", [False, True])
def test_reading_by_length_changes_nothing_but_the_time(tiny_encoder: str, training: bool) -> None:
    model = load_encoder(tiny_encoder)
    ids, mask = _batch(tiny_encoder)
    expected = model(input_ids=ids, attention_mask=mask).last_hidden_state
    seen: list[tuple[int, ...]] = []
    note = lambda module, _, given: seen.append(tuple(given["attention_mask"].shape))  # noqa: E731
    model.register_forward_pre_hook(note, with_kwargs=True)
    with torch.set_grad_enabled(training):
        vectors = read_by_length(model, ids, mask)
    assert vectors.shape[:2] == ids.shape
    assert torch.allclose(vectors[mask.bool()], expected[mask.bool()], atol=1e-5)
    assert len(seen) == 6 and sum(rows for rows, _ in seen) == 97
    assert sum(rows * width for rows, width in seen) < 0.5 * ids.numel()
    pooled = mask.bool() & (ids > 3)
    with torch.set_grad_enabled(training):
        means = mean_by_length(model, ids, mask, pooled)
    assert torch.allclose(means, mean_pool(expected, pooled), atol=1e-5)


def test_gradients_are_those_of_one_batch(tiny_encoder: str) -> None:
    ids, mask = _batch(tiny_encoder)
    gradients = []
    for read in (read_by_length, lambda model, ids, mask: model(input_ids=ids, attention_mask=mask).last_hidden_state):
        model = load_encoder(tiny_encoder)
        mean_pool(read(model, ids, mask), mask).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
    assert len(gradients[0]) == len(gradients[1])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_an_encoder_without_layers_reads_no_padding(tiny_encoder: str) -> None:
    ids, mask = _batch(tiny_encoder)
    config = ArchitectureConfig(width=16, heads=2)
    model = static_encoder(config, vocabulary=300, seed=1).base_model.eval()
    torch.nn.init.normal_(model.embeddings.position_embeddings.weight)
    pooled = mask.bool() & (ids > 3)
    expected = mean_pool(model(input_ids=ids, attention_mask=mask).last_hidden_state, pooled)
    seen: list[int] = []
    model.register_forward_pre_hook(lambda module, _, given: seen.append(given["input_ids"].numel()), with_kwargs=True)
    assert torch.allclose(mean_by_length(model, ids, mask, pooled), expected, atol=1e-5)
    assert seen == [int(pooled.sum())]


@pytest.mark.parametrize(
    "lengths", [[1], [5] * 40, [1] * 127 + [500], [1] + [500] * 127, [2] * 60 + [9] * 60 + [100] * 900, range(1, 200)]
)
def test_groups_of_like_length_are_as_many_for_as_many_texts_and_never_empty(lengths: Sequence[int]) -> None:
    sizes = length_groups(lengths)
    assert len(sizes) == len(length_groups([7] * len(lengths)))
    assert sum(sizes) == len(lengths) and min(sizes) > 0


def test_groups_of_like_length_have_about_as_many_subwords_each() -> None:
    lengths = sorted(np.random.default_rng(0).integers(5, 100, size=128).tolist())
    sums = [sum(some) for some in np.split(np.array(lengths), np.cumsum(length_groups(lengths))[:-1])]
    assert len(sums) == 8 and max(sums) < 1.2 * min(sums)
