import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

from babelray.encoder.load import load_encoder, load_masked_lm, load_tokenizer, resolve_layer, save_encoder
from babelray.errors import DataError


def test_layers() -> None:
    with pytest.raises(DataError, match="has 4 layers, there is no layer 6"):
        resolve_layer(6, 4)
    with pytest.raises(DataError, match="no layer -6"):
        resolve_layer(-6, 4)


def test_what_is_no_encoder(tiny_encoder: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*/none with an encoder"):
        load_encoder(str(tmp_path / "none"))
    with pytest.raises(DataError, match="cannot load the encoder none/such"):
        load_encoder("none/such")
    shutil.copy(Path(tiny_encoder) / "config.json", tmp_path)
    with pytest.raises(DataError, match="cannot load the encoder") as caught:
        load_masked_lm(str(tmp_path))
    assert "model.safetensors" in caught.value.remedy


def test_a_pickled_model_is_not_loaded(tiny_encoder: str, tmp_path: Path) -> None:
    """Loading `pytorch_model.bin` would run whatever code is pickled in it."""
    shutil.copytree(tiny_encoder, tmp_path, dirs_exist_ok=True)
    torch.save(load_masked_lm(tiny_encoder).state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(DataError, match="cannot load the encoder"):
        load_masked_lm(str(tmp_path))


def test_a_tokenizer_without_a_mask(tiny_encoder: str, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(DataError, match="no pad or no mask token"):
        load_tokenizer(str(tmp_path))
    assert load_tokenizer(str(tmp_path), masks=False).mask_token is None


def test_a_slow_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SimpleNamespace(is_fast=False)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda path, **options: slow)
    with pytest.raises(DataError, match="is a slow one") as caught:
        load_tokenizer("some/encoder", masks=False)
    assert "tokenizer.json" in caught.value.remedy


def test_encoders_with_and_without_a_pooler(tmp_path: Path) -> None:
    small = {"vocab_size": 20, "num_hidden_layers": 1, "num_attention_heads": 1}
    BertModel(BertConfig(**small, hidden_size=4, intermediate_size=4)).save_pretrained(tmp_path / "bert")
    DistilBertModel(DistilBertConfig(vocab_size=20, dim=4, n_layers=1, n_heads=1)).save_pretrained(tmp_path / "distil")
    for name in ("bert", "distil"):
        model = load_encoder(str(tmp_path / name))
        assert getattr(model, "pooler", None) is None and not model.training


@pytest.mark.parametrize("weights", ["float16", "bfloat16", "float32"])
def test_weights_in_less_room_are_read_as_float32(tiny_encoder: str, tmp_path: Path, weights: str) -> None:
    save_encoder(load_masked_lm(tiny_encoder), tmp_path, weights)
    kind = getattr(torch, weights)
    stored = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {kind}
    original, read = load_masked_lm(tiny_encoder), transformers.AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert read.dtype == torch.float32
    for name, parameter in read.named_parameters():
        assert torch.equal(parameter, original.get_parameter(name).to(kind).float()), name
