import pytest
import torch

from babelray.encoder.load import load_masked_lm
from babelray.errors import TrainingError
from babelray.objectives.static_mse import StaticMse, StaticMseConfig


def test_it_is_the_mean_square_over_words_that_are_encoded_one_by_one(training_data, tiny_encoder: str) -> None:
    """Padding, special tokens and the other words of a batch leave no trace."""
    objective = StaticMse(StaticMseConfig(batch_size=6), training_data)
    model = load_masked_lm(tiny_encoder).eval()
    batch = objective.batch(step=3)
    squares = []
    for ids, mask, pooled, static in zip(*(batch[k] for k in ("ids", "mask", "pooled", "static")), strict=True):
        length = int(mask.sum())
        hidden = model.base_model(input_ids=ids[None, :length], attention_mask=mask[None, :length]).last_hidden_state[0]
        squares.append((hidden[pooled[:length]].mean(0) - static).square().mean())
    loss = objective.loss_terms(model, batch).mean()
    assert loss.item() == pytest.approx(torch.stack(squares).mean().item(), rel=1e-5)
    loss.backward()
    assert model.base_model.embeddings.word_embeddings.weight.grad.abs().sum() > 0


def test_words_come_with_their_own_vectors(training_data) -> None:
    batch = StaticMse(StaticMseConfig(batch_size=64), training_data).batch(step=0)
    expected = {
        tuple(training_data.tokenizer(word)["input_ids"]): vector
        for code in ("en", "de")
        for word, vector in zip(*training_data.vectors(code), strict=True)
    }
    seen = set()
    for ids, mask, static in zip(batch["ids"], batch["mask"], batch["static"], strict=True):
        key = tuple(ids[: int(mask.sum())].tolist())
        assert torch.equal(expected[key], static)
        seen.add(key)
    assert seen == set(expected)


def test_vectors_of_another_width_are_refused(training_data, tiny_encoder: str) -> None:
    training_data.width = 16
    objective = StaticMse(StaticMseConfig(batch_size=2), training_data)
    with pytest.raises(TrainingError, match="32 wide, the static vectors are 16"):
        objective.loss_terms(load_masked_lm(tiny_encoder), objective.batch(step=0))
