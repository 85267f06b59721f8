import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from babelray.encoder.layers import LayerReader, longest_input
from babelray.encoder.load import load_encoder, load_tokenizer
from babelray.encoder.pool import encode_sentences, mean_pool, pool_by_length, token_budget_batches
from conftest import SENTENCES


def test_mean_pool_ignores_what_is_masked() -> None:
    hidden = torch.tensor([[[1.0], [3.0], [100.0]], [[5.0], [7.0], [9.0]]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    assert mean_pool(hidden, mask).tolist() == [[2.0], [0.0]]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(50, 200))
def test_batches_hold_everything_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(token_budget_batches(lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[i] for i in batch) <= budget for batch in batches)


def test_a_sentence_has_the_same_vector_alone_and_in_a_batch(tiny_encoder: str) -> None:
    reader, tokenizer = LayerReader(load_encoder(tiny_encoder), [1]), load_tokenizer(tiny_encoder)
    texts = [*SENTENCES[:6], " ".join(SENTENCES)]
    longest = longest_input(reader.model, tokenizer)
    together = encode_sentences(reader.highest, reader.device, tokenizer, texts, longest, batch_tokens=128)
    for text, vector in zip(texts, together, strict=True):
        alone = encode_sentences(reader.highest, reader.device, tokenizer, [text], longest, batch_tokens=64)[0]
        assert torch.allclose(alone, vector, atol=1e-5)


def test_reading_by_length_changes_nothing_but_the_time(tiny_encoder: str) -> None:
    model, tokenizer = load_encoder(tiny_encoder), load_tokenizer(tiny_encoder)
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(["cat", "sleeps", "Garten", "猫"], size=count)) for count in [1] * 90 + [9] * 7]
    encoded = tokenizer(texts, padding=True, return_special_tokens_mask=True, return_tensors="pt")
    pooled = encoded["special_tokens_mask"] == 0
    order = torch.from_numpy(generator.permutation(len(texts)))
    ids, mask, pooled = encoded["input_ids"][order], encoded["attention_mask"][order], pooled[order]
    expected = mean_pool(model(input_ids=ids, attention_mask=mask).last_hidden_state, pooled)
    seen: list[tuple[int, ...]] = []
    note = lambda module, _, given: seen.append(tuple(given["input_ids"].shape))  # noqa: E731
    model.register_forward_pre_hook(note, with_kwargs=True)
    found = pool_by_length(model, ids, mask, pooled)
    assert torch.allclose(found, expected, atol=1e-5)
    assert len(seen) == 4 and sum(rows for rows, _ in seen) == 97
    assert sum(rows * width for rows, width in seen) < 0.7 * ids.numel()
