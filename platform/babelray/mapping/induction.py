"""Which words of two mapped vocabularies translate each other, by CSLS in both directions, from one product.

The similarity of two vocabularies is computed once. While a block of it is in the processor's cache, the maxima are
taken from which both sides' neighbourhoods (CSLS' penalties) follow; a second reading finds the best translations of
rows and of columns.

Stochastic dictionary induction (Artetxe et al., 2018b, section 3.3) drops every cell of the similarity matrix with
probability 1 - p before it looks for the best of a row. Then the best that is left is, in the order of scores,
the first that was not dropped, and its rank is geometrically distributed: P(rank = r) = p (1 - p)^(r-1). So a rank is
drawn for each row, and no mask is ever made.

Shapes: N source words, M target words, D width, B rows of a block, G groups of cells (see `vectors.top`), P pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from babelray.vectors.top import GROUP, column_maxima, padded, row_maxima, top

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.dictionary import Direction
    from babelray.vectors.top import Cells

ROWS = 512
"""Rows that are multiplied at once; a multiple of the size of a group."""


@dataclass(frozen=True)
class Induced:
    """Pairs of positions, those found from the source first.

    `confidence_P` is the CSLS of each pair: above 0 they are nearer to each other than to their neighbourhoods.
    `objective` is the mean cosine of all words to their best translations, that of Artetxe et al.; nothing dropped.
    """

    source_P: Tensor
    target_P: Tensor
    confidence_P: Tensor
    objective: float


def induce(source_ND: Tensor, target_MD: Tensor, csls: int = 10, direction: Direction = "union") -> Induced:
    """Translations of the words of two vocabularies whose vectors have length 1 and are in one space."""
    return Inducer(len(source_ND), len(target_MD), csls, source_ND.device)(source_ND, target_MD, direction=direction)


class Inducer:
    """Induces dictionaries of vocabularies of these sizes, as often as it is called, in memory that is taken once."""

    def __init__(self, count: int, other_count: int, csls: int = 10, device: torch.device | None = None) -> None:
        self.count, self.other_count, self.csls = count, other_count, csls
        rows, columns = padded(count), padded(other_count)
        self.cosine_NM = torch.full((rows, columns), -torch.inf, device=device)
        self.rows_NG = torch.empty(rows, columns // GROUP, device=device)
        self.columns_GM = torch.empty(rows // GROUP, columns, device=device)
        self.buffer_BM = torch.empty(GROUP, columns, device=device)
        self.near_N, self.near_M = torch.zeros(rows, device=device), torch.zeros(columns, device=device)
        """Half of CSLS' penalties: half the mean cosine of a word to its nearest of the other side."""

    def __call__(
        self,
        source_ND: Tensor,
        target_MD: Tensor,
        keep: float = 1.0,
        generator: torch.Generator | None = None,
        direction: Direction = "union",
    ) -> Induced:
        """Induce a dictionary; every cell is kept with probability `keep`."""
        self._multiply(source_ND, target_MD)
        if self.csls:
            self._penalise()
        forward_N, first_N = _choose(self.rows_NG[: self.count], self._forward, self.other_count, keep, generator)
        backward_M, first_M = _choose(self._column_maxima(), self._backward, self.count, keep, generator)
        own_N = torch.arange(self.count, device=forward_N.device)
        own_M = torch.arange(self.other_count, device=forward_N.device)
        mutual_N = backward_M[forward_N] == own_N
        source_P, target_P = {
            "forward": (own_N, forward_N),
            "backward": (backward_M, own_M),
            "union": (torch.cat([own_N, backward_M]), torch.cat([forward_N, own_M])),
            "mutual": (own_N[mutual_N], forward_N[mutual_N]),
        }[direction]
        confidence_P = 2 * (self.cosine_NM[source_P, target_P] - self.near_N[source_P] - self.near_M[target_P])
        objective = (self.cosine_NM[own_N, first_N].mean() + self.cosine_NM[first_M, own_M].mean()) / 2
        return Induced(source_P, target_P, confidence_P, objective.item())

    def _multiply(self, source_ND: Tensor, target_MD: Tensor) -> None:
        """The cosine of every pair, and the maxima of rows and columns."""
        self.near_N.zero_()
        self.near_M.zero_()
        for start in range(0, len(self.cosine_NM), ROWS):
            block_BM, own_BD = self.cosine_NM[start : start + ROWS], source_ND[start : start + ROWS]
            torch.matmul(own_BD, target_MD.T, out=block_BM[: len(own_BD), : self.other_count])
            row_maxima(block_BM, out=self.rows_NG[start : start + ROWS])
            column_maxima(block_BM, out=self.columns_GM[start // GROUP : (start + ROWS) // GROUP])

    def _penalise(self) -> None:
        """The penalties, and the maxima of rows and columns when every word of the other side has its own."""
        count, other_count = min(self.csls, self.other_count), min(self.csls, self.count)
        near_N = top(self.rows_NG[: self.count], self._forward, count)[0].mean(1) / 2
        near_M = top(self._column_maxima(), self._backward, other_count)[0].mean(1) / 2
        self.near_N[: self.count], self.near_M[: self.other_count] = near_N, near_M
        for group, start in enumerate(range(0, len(self.cosine_NM), GROUP)):  # what is read once stays in the cache
            rows = slice(start, start + GROUP)
            torch.sub(self.cosine_NM[rows], self.near_M, out=self.buffer_BM)
            row_maxima(self.buffer_BM, out=self.rows_NG[rows])
            torch.sub(self.cosine_NM[rows], self.near_N[rows, None], out=self.buffer_BM)
            column_maxima(self.buffer_BM, out=self.columns_GM[group : group + 1])

    def _column_maxima(self) -> Tensor:
        return self.columns_GM.T[: self.other_count].contiguous()

    def _forward(self, rows_R1: Tensor, columns_RC: Tensor) -> Tensor:
        """Scores by which translations of source words are compared."""
        if len(rows_R1) == self.count:  # all in their order, which is faster
            return self.cosine_NM.gather(1, columns_RC) - self.near_M[columns_RC]
        return self.cosine_NM[rows_R1, columns_RC] - self.near_M[columns_RC]

    def _backward(self, columns_R1: Tensor, rows_RC: Tensor) -> Tensor:
        """Scores by which translations of target words are compared."""
        if len(columns_R1) == self.other_count:
            return self.cosine_NM.gather(0, rows_RC.T.contiguous()).T - self.near_N[rows_RC]
        return self.cosine_NM[rows_RC, columns_R1] - self.near_N[rows_RC]


def _choose(
    maxima_NG: Tensor, cells: Cells, columns: int, keep: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """For each row the column whose rank was drawn, and the column of the first rank."""
    count = len(maxima_NG)
    rank_N = torch.zeros(count, dtype=torch.long)
    if keep < 1:
        uniform_N = torch.rand(count, generator=generator, dtype=torch.double).clamp(min=1e-300)
        rank_N = (uniform_N.log() / math.log1p(-keep)).floor().long().clamp(max=columns - 1)
    rank_N = rank_N.to(maxima_NG.device)
    chosen_N, first_N = torch.empty_like(rank_N), torch.empty_like(rank_N)
    looked_for, seen = 1, 0
    while seen < columns:  # rows with like ranks together: few have high ones, for which many cells are looked at
        looked_for = min(looked_for, columns)
        rows_R = ((rank_N >= seen) & (rank_N < looked_for)).nonzero().flatten()
        if len(rows_R):
            _, found_Rn = top(maxima_NG, cells, looked_for, rows_R)
            chosen_N[rows_R] = found_Rn.gather(1, rank_N[rows_R, None]).flatten()
            first_N[rows_R] = found_Rn[:, 0]
        seen, looked_for = looked_for, 2 * looked_for
    return chosen_N, first_N
