from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from babelray.vectors import retrieval
from babelray.vectors.retrieval import mean_nearest, nearest, nearest_by_product
from babelray.vectors.top import column_maxima, padded, row_maxima, top


def cosine(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_similarity(queries[:, None], keys[None], dim=-1)


def csls_by_definition(queries: torch.Tensor, keys: torch.Tensor, pool: torch.Tensor, k: int) -> torch.Tensor:
    """CSLS (or cosine for k = 0) of every pair, as the paper writes it."""
    if not k:
        return cosine(queries, keys)
    near_queries = cosine(queries, keys).topk(min(k, len(keys)), dim=1).values.mean(1)
    near_keys = cosine(pool, keys).topk(min(k, len(pool)), dim=0).values.mean(0)
    return 2 * cosine(queries, keys) - near_queries[:, None] - near_keys[None]


sizes = st.integers(1, 90)


@given(sizes, sizes, st.integers(0, 12), st.integers(1, 5), st.integers(0, 9))
def test_csls_is_its_definition_whatever_the_blocks(n: int, m: int, k: int, rows: int, seed: int) -> None:
    torch.manual_seed(seed)
    queries, keys, pool = torch.randn(n, 5), torch.randn(m, 5), torch.randn(7, 5)
    with patch.multiple(retrieval, CELLS=rows * padded(m)):
        for others in (None, pool):
            expected = csls_by_definition(queries, keys, queries if others is None else others, k).topk(min(3, m))
            scores, positions = nearest(queries, keys, n=3, csls=k, pool_PD=others)
            assert torch.allclose(scores, expected.values, atol=1e-5)
            assert torch.equal(positions, expected.indices)


@pytest.mark.parametrize("beta", [1.0, 30.0])
def test_the_inverted_softmax_is_the_probability_of_the_query_given_the_key(beta: float) -> None:
    torch.manual_seed(1)
    queries, keys = torch.randn(40, 5), torch.randn(70, 5)
    expected = (beta * cosine(queries, keys)).softmax(0).log().topk(4)
    scores, positions = nearest(queries, keys, n=4, inverted_softmax=beta)
    assert torch.allclose(scores, expected.values, atol=1e-4)
    assert torch.equal(positions, expected.indices)


def test_products_count_lengths() -> None:
    torch.manual_seed(1)
    queries, keys = torch.randn(10, 3), torch.randn(80, 3) * torch.rand(80, 1)
    product = queries @ keys.T
    assert torch.equal(nearest_by_product(queries, keys, 5), product.topk(5).indices)
    assert torch.allclose(mean_nearest(queries, keys, 5), product.topk(5).values.mean(1))
    assert torch.allclose(mean_nearest(queries, keys, 100), product.mean(1), atol=1e-6), "no more than there are"


@pytest.mark.parametrize("csls", [0, 3])
def test_zero_vectors_do_not_break_it(csls: int) -> None:
    scores, _ = nearest(torch.zeros(2, 4), torch.randn(5, 4), csls=csls)
    assert torch.isfinite(scores).all()


def test_memory_is_bounded_however_many_rows_there_are() -> None:
    queries, keys = torch.randn(300, 4), torch.randn(50, 4)
    with patch.multiple(retrieval, CELLS=64 * 10):
        shapes = {block.scores_BM.shape for block in retrieval._blocks(queries, keys)}
    assert shapes == {(10, 64)}


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 40), st.integers(0, 9))
def test_the_largest_of_rows_and_columns_are_in_the_best_groups(n: int, m: int, count: int, seed: int) -> None:
    torch.manual_seed(seed)
    scores = torch.randn(32 * n, 32 * m)
    for matrix, maxima in ((scores, row_maxima(scores)), (scores.T, column_maxima(scores).T)):
        n = min(count, matrix.shape[1])
        expected = matrix.topk(n)
        values, columns = top(maxima, lambda rows, columns, matrix=matrix: matrix[rows, columns], n)
        assert torch.equal(values, expected.values)
        assert torch.equal(columns, expected.indices)
        rows = torch.tensor([5, 2])
        values, _ = top(maxima, lambda rows, columns, matrix=matrix: matrix[rows, columns], n, rows)
        assert torch.equal(values, expected.values[rows])
