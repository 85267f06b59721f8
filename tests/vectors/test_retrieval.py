import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from babelray.vectors.retrieval import nearest


def by_definition(queries: torch.Tensor, keys: torch.Tensor, k: int) -> torch.Tensor:
    """CSLS (or cosine for k = 0) of every pair, as the paper writes it."""
    cosine = torch.nn.functional.cosine_similarity(queries[:, None], keys[None], dim=-1)
    if not k:
        return cosine
    near_queries = cosine.topk(min(k, len(keys)), dim=1).values.mean(1)
    near_keys = cosine.topk(min(k, len(queries)), dim=0).values.mean(0)
    return 2 * cosine - near_queries[:, None] - near_keys[None]


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 12), st.integers(1, 7), st.integers(0, 9))
def test_same_as_the_definition_whatever_the_tile(n: int, m: int, k: int, tile: int, seed: int) -> None:
    torch.manual_seed(seed)
    queries, keys = torch.randn(n, 5), torch.randn(m, 5)
    expected = by_definition(queries, keys, k).topk(min(3, m))
    scores, positions = nearest(queries, keys, n=3, csls=k, tile=tile)
    assert torch.allclose(scores, expected.values, atol=1e-5)
    assert torch.equal(positions, expected.indices)


@pytest.mark.parametrize("csls", [0, 3])
def test_zero_vectors_do_not_break_it(csls: int) -> None:
    scores, _ = nearest(torch.zeros(2, 4), torch.randn(5, 4), csls=csls)
    assert torch.isfinite(scores).all()
