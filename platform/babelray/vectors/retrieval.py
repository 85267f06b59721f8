"""Exact nearest neighbours by cosine, CSLS or inverted softmax, in blocks: bounded memory, no approximate index.

CSLS (Conneau et al., 2018) subtracts from the cosine of x and y the density of their neighbourhoods:

    CSLS(x, y) = 2 cos(x, y) − r_T(x) − r_S(y)

where r_T(x) is the mean cosine of x to its k nearest neighbours on the other side. The inverted softmax (Smith et
al., 2017) is the log probability of the query, given the key, among all queries:

    ISF(x, y) = β cos(x, y) − log Σ_x' exp(β cos(x', y))

In both cases a score is a cosine minus an offset of the key: one matrix product for the offsets, one for the scores.

Shapes: N queries, M keys, D width, B rows of a block, G groups of columns (see `top`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional

from babelray.vectors.top import padded, row_maxima, top

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

CELLS = 1 << 26
"""Scores that are in memory at once: 256 MB."""


def nearest(
    queries_ND: Tensor,
    keys_MD: Tensor,
    n: int = 1,
    csls: int = 0,
    inverted_softmax: float = 0.0,
    pool_PD: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores and positions (N, n) of each query's nearest keys, best first.

    `csls` is CSLS' k and `inverted_softmax` its β; plain cosine if both are 0. The neighbourhood of a key is taken
    among the vectors of `pool_PD`, by default the queries.

    >>> scores, positions = nearest(torch.eye(3), torch.eye(3)[[2, 0, 1]])
    >>> positions.flatten().tolist()
    [1, 2, 0]
    """
    queries_ND, keys_MD = functional.normalize(queries_ND), functional.normalize(keys_MD)
    n, k = min(n, len(keys_MD)), min(csls, len(keys_MD))
    offset_M = None
    if csls or inverted_softmax:
        pool_PD = queries_ND if pool_PD is None else functional.normalize(pool_PD)
        if csls:
            offset_M = mean_nearest(keys_MD, pool_PD, csls) / 2
        else:
            offset_M = _log_sum(keys_MD, pool_PD, inverted_softmax) / inverted_softmax
    scores, positions = [], []
    for block in _blocks(queries_ND, keys_MD, offset_M, raw=k > 0):
        values_Bn, columns_Bn = top(block.maxima_BG, block.cells, n)
        if csls:
            values_Bn = 2 * values_Bn - block.raw_top(k).mean(1, keepdim=True)
        scores.append(values_Bn * inverted_softmax if inverted_softmax else values_Bn)
        positions.append(columns_Bn)
    return torch.cat(scores), torch.cat(positions)


def nearest_by_product(queries_ND: Tensor, keys_MD: Tensor, n: int) -> Tensor:
    """Positions (N, n) of the keys with the largest inner product, best first; lengths count."""
    return torch.cat([top(block.maxima_BG, block.cells, n)[1] for block in _blocks(queries_ND, keys_MD)])


def mean_nearest(rows_ND: Tensor, others_MD: Tensor, k: int) -> Tensor:
    """For each row the mean of its k largest inner products with the others."""
    k = min(k, len(others_MD))
    return torch.cat([top(block.maxima_BG, block.cells, k)[0].mean(1) for block in _blocks(rows_ND, others_MD)])


def _log_sum(rows_ND: Tensor, others_MD: Tensor, beta: float) -> Tensor:
    blocks = _blocks(rows_ND, others_MD)
    return torch.cat([block.scores_BM.mul_(beta).logsumexp(1) for block in blocks])


class _Block(NamedTuple):
    """Scores of some queries with all keys. The next block overwrites them."""

    scores_BM: Tensor
    maxima_BG: Tensor
    raw_BG: Tensor | None
    offset_M: Tensor

    def cells(self, rows_R1: Tensor, columns_RC: Tensor) -> Tensor:
        return self.scores_BM.gather(1, columns_RC)

    def raw_top(self, k: int) -> Tensor:
        """The k largest products (B, k) before the offset was subtracted."""
        assert self.raw_BG is not None  # requested with `raw`
        return top(self.raw_BG, lambda rows, columns: self.cells(rows, columns) + self.offset_M[columns], k)[0]


def _blocks(queries_ND: Tensor, keys_MD: Tensor, offset_M: Tensor | None = None, raw: bool = False) -> Iterator[_Block]:
    """The products of queries and keys minus the keys' offsets, and their maxima; `raw`: also without offsets."""
    count, width = len(keys_MD), padded(len(keys_MD))
    rows = max(1, min(len(queries_ND), CELLS // width))
    scores_BM = queries_ND.new_full((rows, width), -torch.inf)
    offsets_M = queries_ND.new_zeros(width) if offset_M is None else functional.pad(offset_M, (0, width - count))
    for block_BD in queries_ND.split(rows):
        block_BM = scores_BM[: len(block_BD)]
        torch.matmul(block_BD, keys_MD.T, out=block_BM[:, :count])
        raw_BG = row_maxima(block_BM) if raw else None
        if offset_M is not None:
            block_BM -= offsets_M
        yield _Block(block_BM, row_maxima(block_BM), raw_BG, offsets_M)
