"""FOCUS' embeddings against their definition."""

import pytest
import torch
from torch.nn import functional

from babelray.errors import DataError
from babelray.stitching.focus import focus
from babelray.stitching.relative import sparsemax

GENERATOR = torch.Generator().manual_seed(3)


def test_focus_copies_what_is_shared_and_makes_the_rest_of_it() -> None:
    words_NE, shared_S = torch.randn(12, 6, generator=GENERATOR), torch.tensor([1, 4, 7, 8])
    embeddings_SD = torch.randn(4, 5, generator=GENERATOR)
    embeddings_ND = focus(words_NE, shared_S, embeddings_SD)
    assert torch.equal(embeddings_ND[shared_S], embeddings_SD)
    cosine = functional.normalize(words_NE) @ functional.normalize(words_NE[shared_S]).T
    assert torch.allclose(embeddings_ND[[0, 2]], (sparsemax(cosine) @ embeddings_SD)[[0, 2]], atol=1e-5)
    with pytest.raises(DataError, match="no word in common"):
        focus(words_NE, torch.tensor([], dtype=torch.long), torch.empty(0, 5))
