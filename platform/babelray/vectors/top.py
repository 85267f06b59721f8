"""The largest cells of every row of a matrix of scores, exactly, in about one pass over the matrix.

Columns are taken in groups. The n largest cells of a row lie in the n groups with the largest maxima, so maxima are
computed once (one pass, which vectorises well), the best groups are chosen among them, and only the cells of those
groups are examined. Sorting every row for its n largest costs several times as much.

Shapes: N rows, M columns, G groups of columns, n cells of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Cells = Callable[[Tensor, Tensor], Tensor]
    """Scores at rows (R, 1) and columns (R, C)."""

GROUP = 32


def padded(count: int) -> int:
    """`count`, rounded up to complete groups; the additional cells must be -inf.

    >>> padded(1), padded(64), padded(65)
    (32, 64, 96)
    """
    return -(-count // GROUP) * GROUP


def row_maxima(scores_NM: Tensor, out: Tensor | None = None) -> Tensor:
    """(N, G): the largest cell of each group of columns."""
    return torch.amax(scores_NM.unflatten(1, (-1, GROUP)), 2, out=out)


def column_maxima(scores_NM: Tensor, out: Tensor | None = None) -> Tensor:
    """(G, M): the largest cell of each group of rows."""
    return torch.amax(scores_NM.unflatten(0, (-1, GROUP)), 1, out=out)


def top(maxima_NG: Tensor, cells: Cells, n: int, rows_R: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Values and columns (R, n) of the n largest cells of the given rows, best first; by default of all rows.

    >>> scores_NM = torch.arange(128.0).reshape(2, 64)
    >>> values, columns = top(row_maxima(scores_NM), lambda rows, columns: scores_NM[rows, columns], 2)
    >>> columns.tolist()
    [[63, 62], [63, 62]]
    """
    if rows_R is None:
        rows_R = torch.arange(len(maxima_NG), device=maxima_NG.device)
    elif len(rows_R) < len(maxima_NG):
        maxima_NG = maxima_NG[rows_R]
    groups_Rn = maxima_NG.topk(min(n, maxima_NG.shape[1]), sorted=False).indices
    within = torch.arange(GROUP, device=maxima_NG.device)
    columns_RC = (groups_Rn.unsqueeze(2) * GROUP + within).flatten(1)
    best = cells(rows_R.unsqueeze(1), columns_RC).topk(n)
    return best.values, columns_RC.gather(1, best.indices)
