import pytest
import torch
from pydantic import ValidationError

from babelray.encoder.scratch import ArchitectureConfig, add_layers, random_encoder, static_encoder, train_tokenizer
from conftest import SENTENCES


def test_tokenizer_round_trip_and_special_tokens() -> None:
    tokenizer = train_tokenizer(SENTENCES, vocabulary=300, max_tokens=64)
    for text in set(SENTENCES):
        ids = tokenizer(text)["input_ids"]
        assert ids[0] == tokenizer.cls_token_id == 0 and ids[-1] == tokenizer.sep_token_id == 2
        assert tokenizer.decode(ids, skip_special_tokens=True).strip() == text
    assert tokenizer("a <mask> b")["input_ids"].count(tokenizer.mask_token_id) == 1
    assert tokenizer.pad_token_id == 1 and len(tokenizer) <= 300
    assert tokenizer("Ω")["input_ids"].count(tokenizer.unk_token_id) == 1


def test_what_is_not_in_the_vocabulary_is_read_as_bytes() -> None:
    tokenizer = train_tokenizer(SENTENCES, vocabulary=600, max_tokens=64, byte_fallback=True)
    for text in ("Ω and 🦉", SENTENCES[0]):
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.unk_token_id not in ids and tokenizer.decode(ids, skip_special_tokens=True).strip() == text
    assert len(tokenizer("🦉")["input_ids"]) >= 2 + len("🦉".encode())
    assert len(tokenizer) <= 600


@pytest.mark.parametrize(("text", "bytes_too"), [("猫在温暖的床上睡觉。", False), ("猫Ω🦉床", True)])
def test_tokenizer_gives_character_offsets(text: str, bytes_too: bool) -> None:
    tokenizer = train_tokenizer(SENTENCES, vocabulary=600 if bytes_too else 300, max_tokens=64, byte_fallback=bytes_too)
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"][1:-1]
    covered = {i for a, b in offsets for i in range(a, b)}
    assert covered == set(range(len(text)))
    assert [a for a, _ in offsets] == sorted(a for a, _ in offsets)


@pytest.mark.parametrize("architecture", ["xlm-roberta", "roberta-prelayernorm"])
def test_the_seed_determines_a_random_encoder(architecture: str) -> None:
    config = ArchitectureConfig(architecture=architecture, width=16, layers=1, heads=2)
    one, same, other = (random_encoder(config, 300, seed) for seed in (1, 1, 2))
    weights = [model.get_input_embeddings().weight for model in (one, same, other)]
    assert weights[0].equal(weights[1]) and not weights[0].equal(weights[2])
    assert one.config.model_type == architecture


def test_heads_divide_the_width() -> None:
    with pytest.raises(ValidationError, match=r"heads \(3\) must divide width \(16\)"):
        ArchitectureConfig(width=16, heads=3)


def test_without_layers_a_text_is_the_mean_of_its_subwords() -> None:
    model = static_encoder(ArchitectureConfig(width=16, layers=2, heads=2), 300, seed=1).eval()
    ids = torch.randint(4, 300, (1, 9))
    vectors = model.base_model(ids).last_hidden_state[0]
    tables = model.base_model.embeddings
    normal = torch.nn.functional.layer_norm(tables.word_embeddings.weight[ids[0]], (16,))
    assert torch.allclose(vectors, normal, atol=1e-4)
    assert torch.equal(model.base_model(ids.flip(1)).last_hidden_state[0].flip(0), vectors)  # in any order
    assert 0.45 < tables.word_embeddings.weight.std() < 0.55


def test_added_layers_change_nothing_until_they_are_trained() -> None:
    """An encoder that was trained without layers, and the one that has them, give the same vectors."""
    config = ArchitectureConfig(width=16, layers=2, heads=2, feed_forward=24)
    static = static_encoder(config, 300, seed=1)
    for parameter in static.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(2))
    grown = add_layers(static, config, seed=1)
    assert (static.config.num_hidden_layers, grown.config.num_hidden_layers) == (0, 2)
    assert grown.config.intermediate_size == 24
    assert abs(grown.get_input_embeddings().weight.std() - 0.02) < 1e-4
    ids = torch.randint(300, (3, 7))
    before, after = (model.eval().base_model(ids).last_hidden_state for model in (static, grown))
    assert torch.allclose(before, after, atol=1e-4)
    after.square().mean().backward()
    outputs = [layer.output.dense.weight for layer in grown.base_model.encoder.layer]
    assert all(weight.grad.abs().max() > 0 for weight in outputs)  # but they learn


def test_text_is_normalised_as_when_the_vocabulary_was_learned() -> None:
    """Persian's half-space (U+200C) is a space to SentencePiece: no text may have it as bytes."""
    tokenizer = train_tokenizer(["می روم به خانه ی ما", *SENTENCES] * 5, 400, 64, byte_fallback=True)
    assert tokenizer.tokenize("می\u200cروم") == tokenizer.tokenize("می روم")
    assert tokenizer.tokenize("ｃａｔ  ") == tokenizer.tokenize("cat")
