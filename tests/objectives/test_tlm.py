import torch

from babelray.encoder.load import load_masked_lm
from babelray.objectives.tlm import Tlm, TlmConfig


def test_a_sentence_and_its_translation_are_read_together(training_data, tiny_encoder: str) -> None:
    objective = Tlm(TlmConfig(batch_size=40), training_data)
    batch = objective.batch(step=0)
    tokenizer = training_data.tokenizer
    expected = set()
    for one, other in zip(*training_data.parallel("de"), strict=True):
        expected |= {tuple(tokenizer(one, other)["input_ids"]), tuple(tokenizer(other, one)["input_ids"])}
    original = torch.where(batch["labels"] != -100, batch["labels"], batch["ids"])
    found = {tuple(row[: int(mask.sum())].tolist()) for row, mask in zip(original, batch["mask"], strict=True)}
    assert found == expected, "both orders, nothing cut or mixed"
    hidden = batch["labels"] != -100
    assert 0.05 < hidden.sum() / batch["mask"].sum() < 0.25
    specials = torch.isin(
        original, torch.tensor([tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id])
    )
    assert not (hidden & specials).any()
    assert len(objective.loss_terms(load_masked_lm(tiny_encoder), batch)) == hidden.sum() == len(batch["language"])


def test_batches_depend_on_the_step_alone(training_data) -> None:
    first, second = Tlm(TlmConfig(), training_data), Tlm(TlmConfig(), training_data)
    second.batch(step=1)
    assert all(torch.equal(a, b) for a, b in zip(first.batch(4).values(), second.batch(4).values(), strict=True))
    assert not torch.equal(first.batch(4)["labels"], first.batch(5)["labels"])
