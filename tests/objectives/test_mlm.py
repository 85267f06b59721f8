from itertools import pairwise

import numpy as np
import torch

from babelray.encoder.load import load_masked_lm, load_tokenizer
from babelray.objectives.mlm import Mlm, MlmConfig, mask_tokens, mlm_terms
from babelray.objectives.objective import language_shares


def test_masking_follows_the_80_10_10_rule() -> None:
    ids = torch.full((400, 100), 7)
    maskable = torch.ones_like(ids, dtype=torch.bool)
    maskable[:, 0] = False
    inputs, labels = mask_tokens(ids, maskable, 99, 1000, 0.15, np.random.default_rng(0))
    chosen = labels != -100
    assert not chosen[:, 0].any()
    assert abs(chosen[:, 1:].float().mean() - 0.15) < 0.01
    assert (labels[chosen] == 7).all() and (inputs[~chosen] == 7).all()
    assert abs((inputs[chosen] == 99).float().mean() - 0.8) < 0.02
    assert abs((inputs[chosen] == 7).float().mean() - 0.1) < 0.02


def test_at_least_one_position_is_masked() -> None:
    ids = torch.tensor([[0, 5, 2]])
    _, labels = mask_tokens(ids, torch.tensor([[False, True, False]]), 9, 10, 1e-9, np.random.default_rng(0))
    assert labels.tolist() == [[-100, 5, -100]]


def test_loss_and_gradient_are_those_of_the_whole_logits(tiny_encoder: str) -> None:
    """Logits only at the masked positions: faster, and the same as transformers' own loss."""
    tokenizer, model = load_tokenizer(tiny_encoder), load_masked_lm(tiny_encoder).eval()
    batch = tokenizer(["The cat sleeps on the warm bed.", "A dog"], padding=True, return_tensors="pt")
    labels = torch.full_like(batch["input_ids"], -100)
    labels[0, 1:4] = batch["input_ids"][0, 1:4]
    labels[1, 1] = batch["input_ids"][1, 1]
    gradients = []
    for compute in (
        lambda: model(**batch, labels=labels).loss,
        lambda: mlm_terms(model, batch["input_ids"], batch["attention_mask"], labels).mean(),
    ):
        model.zero_grad()
        loss = compute()
        loss.backward()
        gradients.append((loss.item(), model.get_input_embeddings().weight.grad.clone()))
    assert abs(gradients[0][0] - gradients[1][0]) < 1e-5
    assert torch.allclose(gradients[0][1], gradients[1][1], atol=1e-6)


def test_language_shares() -> None:
    assert np.allclose(language_shares([9, 1], 1.0), [0.9, 0.1])
    assert np.allclose(language_shares([9, 1], 0.0), [0.5, 0.5])


def test_whole_words_are_hidden_or_shown(training_data) -> None:
    objective = Mlm(MlmConfig(batch_size=60, mask=0.3, whole_words=True), training_data)
    batch = objective.batch(step=0)
    hidden = batch["labels"] != -100
    original = torch.where(hidden, batch["labels"], batch["ids"])
    pieces = 0
    for row, chosen, mask in zip(original, hidden, batch["mask"], strict=True):
        tokens = training_data.tokenizer.convert_ids_to_tokens(row[: int(mask.sum())].tolist())
        starts = [i for i, token in enumerate(tokens) if token.startswith("▁")] + [len(tokens) - 1]
        for start, end in pairwise(starts):
            assert chosen[start:end].all() or not chosen[start:end].any()
            pieces += end - start > 1
    assert pieces > 20, "words of several subwords are among them"
    assert 0.2 < hidden.sum() / (batch["mask"].sum() - 2 * len(hidden)) < 0.4
