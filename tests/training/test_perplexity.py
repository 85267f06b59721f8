"""Loss and perplexity of a language model, against their definitions, one subword at a time."""

import math

import pytest
import torch

from babelray.encoder.load import load_masked_lm, load_tokenizer
from babelray.training.perplexity import mlm_loss, perplexity_of, surprises

TEXTS = ["The cat sleeps on the warm bed.", "Ein Hund bellt."]
CPU = torch.device("cpu")


def test_pseudo_perplexity_is_that_of_every_subword_hidden_alone(tiny_encoder: str) -> None:
    model, tokenizer = load_masked_lm(tiny_encoder).eval(), load_tokenizer(tiny_encoder)
    logs = []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        for location in range(1, ids.shape[1] - 1):
            hidden = ids.clone()
            hidden[0, location] = tokenizer.mask_token_id
            logs.append(model(hidden).logits[0, location].log_softmax(-1)[ids[0, location]].item())
    expected = math.exp(-sum(logs) / len(logs))
    for budget in (64, 4096):
        found = perplexity_of(surprises(model, CPU, tokenizer, TEXTS, 64, budget))
        assert found["pseudo_perplexity"] == pytest.approx(expected, rel=1e-4)
        bits = -sum(logs) / math.log(2) / sum(map(len, TEXTS))
        assert found["bits_per_character"] == pytest.approx(bits, rel=1e-4)


def test_a_model_that_knows_nothing_is_as_surprised_as_there_are_subwords(tiny_encoder: str) -> None:
    model, tokenizer = load_masked_lm(tiny_encoder).eval(), load_tokenizer(tiny_encoder)
    torch.nn.init.zeros_(model.lm_head.decoder.weight)
    torch.nn.init.zeros_(model.lm_head.decoder.bias)
    assert mlm_loss(model, CPU, tokenizer, TEXTS, 64, 512) == pytest.approx(math.log(len(tokenizer)), rel=1e-5)
    found = perplexity_of(surprises(model, CPU, tokenizer, TEXTS, 64, 512))
    assert found["pseudo_perplexity"] == pytest.approx(len(tokenizer), rel=1e-4)


def test_a_text_that_is_cut_counts_as_far_as_it_was_read(tiny_encoder: str) -> None:
    model, tokenizer = load_masked_lm(tiny_encoder).eval(), load_tokenizer(tiny_encoder)
    cut = tokenizer(TEXTS[0], truncation=True, max_length=6, return_offsets_mapping=True)["offset_mapping"][-2][1]
    found = perplexity_of(surprises(model, CPU, tokenizer, TEXTS[:1], 6, 512))
    assert cut < len(TEXTS[0])
    assert found["bits_per_character"] * cut == pytest.approx(4 * math.log2(found["pseudo_perplexity"]))
