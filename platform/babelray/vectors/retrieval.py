"""Exact nearest neighbours in tiles, by cosine or CSLS: bounded memory, no approximate index.

CSLS (Conneau et al., 2018) subtracts from the cosine of x and y how near each of them is to everything:

    CSLS(x, y) = 2 cos(x, y) − r_T(x) − r_S(y)

where r_T(x) is the mean cosine of x to its k nearest neighbours on the other side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor


def nearest(queries_ND: Tensor, keys_MD: Tensor, n: int = 1, csls: int = 0, tile: int = 4096) -> tuple[Tensor, Tensor]:
    """Scores and positions (N, n) of each query's nearest keys, best first.

    `csls` is CSLS' k, 0 for plain cosine; the neighbourhood of a key is taken among the queries.

    >>> scores, positions = nearest(torch.eye(3), torch.eye(3)[[2, 0, 1]])
    >>> positions.flatten().tolist()
    [1, 2, 0]
    """
    queries_ND, keys_MD = functional.normalize(queries_ND), functional.normalize(keys_MD)
    n = min(n, len(keys_MD))
    penalty_M = _mean_nearest(keys_MD, queries_ND, csls, tile) if csls else None
    scores, positions = [], []
    for block_BD in queries_ND.split(tile):
        similarity_BM = block_BD @ keys_MD.T
        if penalty_M is not None:
            own_B1 = similarity_BM.topk(min(csls, len(keys_MD))).values.mean(1, keepdim=True)
            similarity_BM = 2 * similarity_BM - own_B1 - penalty_M
        best = similarity_BM.topk(n)
        scores.append(best.values)
        positions.append(best.indices)
    return torch.cat(scores), torch.cat(positions)


def nearest_by_product(queries_ND: Tensor, keys_MD: Tensor, n: int, tile: int = 4096) -> Tensor:
    """Positions (N, n) of the keys with the largest inner product, best first; lengths count."""
    return torch.cat([(block_BD @ keys_MD.T).topk(n).indices for block_BD in queries_ND.split(tile)])


def _mean_nearest(rows_MD: Tensor, others_ND: Tensor, k: int, tile: int) -> Tensor:
    k = min(k, len(others_ND))
    return torch.cat([(block @ others_ND.T).topk(k).values.mean(1) for block in rows_MD.split(tile)])
