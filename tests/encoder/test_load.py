import shutil
from pathlib import Path

import pytest
import torch

from babelray.encoder.load import load_encoder, load_masked_lm, load_tokenizer, resolve_layer
from babelray.encoder.pool import hidden_states
from babelray.errors import DataError


def test_fewer_layers_give_the_same_vectors(tiny_encoder: str) -> None:
    whole, cut = load_encoder(tiny_encoder), load_encoder(tiny_encoder, layers=1)
    ids = torch.tensor([[0, 5, 6, 7, 2]])
    with torch.inference_mode():
        assert torch.equal(
            hidden_states(whole, ids, torch.ones_like(ids), 1),
            # The last layer's output passes the final normalisation in a pre-LayerNorm encoder.
            hidden_states(cut, ids, torch.ones_like(ids), 1),
        ) or torch.allclose(
            whole.LayerNorm(hidden_states(whole, ids, torch.ones_like(ids), 1)),
            hidden_states(cut, ids, torch.ones_like(ids), 1),
            atol=1e-5,
        )


def test_layers() -> None:
    with pytest.raises(DataError, match="has 4 layers, there is no layer 6"):
        resolve_layer(6, 4)
    with pytest.raises(DataError, match="no layer -6"):
        resolve_layer(-6, 4)


def test_what_is_no_encoder(tiny_encoder: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot load the encoder"):
        load_encoder(str(tmp_path / "none"))
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
