"""WECHSEL's embeddings against their definition."""

import pytest
import torch
from torch.nn import functional

from babelray.errors import DataError
from babelray.stitching.wechsel import wechsel
from support.stitching_language import random_rotation

GENERATOR = torch.Generator().manual_seed(3)


def test_wechsel_finds_the_same_words_after_a_rotation() -> None:
    source_ME, embeddings_MD = torch.randn(50, 8, generator=GENERATOR), torch.randn(50, 5, generator=GENERATOR)
    pairs = torch.arange(20)
    embeddings_ND = wechsel(
        source_ME @ random_rotation(8), source_ME, embeddings_MD, (pairs, pairs), k=3, temperature=0.1
    )
    unit = functional.normalize(source_ME)
    unit = functional.normalize(unit - unit.mean(0))
    near, at = (unit @ unit.T).topk(3)
    wanted = ((near / 0.1).softmax(1).unsqueeze(2) * embeddings_MD[at]).sum(1)
    assert torch.allclose(embeddings_ND, wanted, atol=1e-3)
    alone = wechsel(source_ME @ random_rotation(8), source_ME, embeddings_MD, (pairs, pairs), k=1)
    assert torch.allclose(alone, embeddings_MD, atol=1e-5)


def test_wechsel_without_a_dictionary_or_with_other_widths() -> None:
    none = torch.tensor([], dtype=torch.long)
    with pytest.raises(DataError, match="no translation pair"):
        wechsel(torch.eye(3), torch.eye(3), torch.eye(3), (none, none))
    with pytest.raises(DataError, match="3 and 2 dimensions"):
        wechsel(torch.eye(3), torch.eye(2), torch.eye(2), (torch.tensor([0]), torch.tensor([0])))
