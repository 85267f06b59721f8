"""Which words of two mapped vocabularies translate each other, by CSLS in both directions, from one product.

The similarity of two vocabularies is computed once, tile by tile; from each tile come the neighbourhoods of both sides
(CSLS' penalties), and the best translations of rows and of columns.

Stochastic dictionary induction (Artetxe et al., 2018b, section 3.3) drops every cell of the similarity matrix with
probability 1 - p before it looks for the best of a row. Then the best that is left is, in the order of scores,
the first that was not dropped, and its rank is geometrically distributed: P(rank = r) = p (1 - p)^(r-1). So a rank is
drawn for each row, and no mask is ever made.

Shapes: N rows, M columns, D width, B rows of a tile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

TILE = 2048
RANKS = 16
"""Ranks that are looked for at once; rows that need a larger one are looked at alone."""


@dataclass(frozen=True)
class Induced:
    """Pairs of positions, those found from the source first; `objective` is their mean similarity."""

    source_P: Tensor
    target_P: Tensor
    objective: float


def induce(
    source_ND: Tensor,
    target_MD: Tensor,
    csls: int = 10,
    keep: float = 1.0,
    generator: torch.Generator | None = None,
    direction: str = "union",
) -> Induced:
    """The best translation of every source word, of every target word, or of both; vectors have length 1.

    The objective is that of Artetxe et al.: the mean similarity of each word to its best translation, nothing dropped.
    """
    similarity_NM, own_N, own_M = similarities(source_ND, target_MD, csls)
    found: list[tuple[Tensor, Tensor]] = []
    best: list[float] = []
    if direction in ("forward", "union", "mutual"):
        forward_N, value = _best(similarity_NM, own_M, keep, generator)
        found.append((torch.arange(len(forward_N)), forward_N))
        best.append(value)
    if direction in ("backward", "union", "mutual"):
        backward_M, value = _best(similarity_NM.T, own_N, keep, generator)
        found.append((backward_M, torch.arange(len(backward_M))))
        best.append(value)
    source_P, target_P = (torch.cat(side) for side in zip(*found, strict=True))
    if direction == "mutual":
        mutual = backward_M[forward_N] == torch.arange(len(forward_N))
        source_P, target_P = source_P[: len(forward_N)][mutual], forward_N[mutual]
    return Induced(source_P, target_P, sum(best) / len(best))


def similarities(source_ND: Tensor, target_MD: Tensor, csls: int) -> tuple[Tensor, Tensor, Tensor]:
    """The cosine of every pair (N, M), and for each side the mean cosine to the `csls` nearest of the other."""
    similarity_NM = torch.empty(len(source_ND), len(target_MD))
    own_N = torch.zeros(len(source_ND))
    top_KM: Tensor | None = None
    for start in range(0, len(source_ND), TILE):
        rows = slice(start, start + TILE)
        tile_BM = torch.matmul(source_ND[rows], target_MD.T, out=similarity_NM[rows])
        if not csls:
            continue
        own_N[rows] = tile_BM.topk(min(csls, tile_BM.shape[1])).values.mean(1)
        columns_MB = tile_BM.T.contiguous()
        tops_MK = columns_MB.topk(min(csls, columns_MB.shape[1])).values
        joined_MK = tops_MK if top_KM is None else torch.cat([top_KM, tops_MK], 1)
        top_KM = joined_MK.topk(min(csls, joined_MK.shape[1])).values
    own_M = torch.zeros(len(target_MD)) if top_KM is None else top_KM.mean(1)
    return similarity_NM, own_N, own_M


def _best(scores_NM: Tensor, penalty_M: Tensor, keep: float, generator: torch.Generator | None) -> tuple[Tensor, float]:
    """For each row the column of a drawn rank (the first if all are kept); and the mean of the best similarities."""
    count = len(scores_NM)
    rank_N = torch.zeros(count, dtype=torch.long)
    if keep < 1:
        uniform_N = torch.rand(count, generator=generator, dtype=torch.double).clamp(min=1e-300)
        rank_N = (uniform_N.log() / math.log1p(-keep)).floor().long().clamp(max=scores_NM.shape[1] - 1)
    column_N = torch.empty(count, dtype=torch.long)
    total = 0.0
    ranks = min(RANKS, scores_NM.shape[1]) if keep < 1 else 1
    for start in range(0, count, TILE):
        rows = slice(start, start + TILE)
        tile_BM = scores_NM[rows].contiguous() - penalty_M / 2
        top = tile_BM.topk(ranks)
        total += (top.values[:, 0] + penalty_M[top.indices[:, 0]] / 2).sum().item()
        wanted_B = rank_N[rows]
        found_B = top.indices.gather(1, wanted_B.clamp(max=ranks - 1).unsqueeze(1)).squeeze(1)
        for row in (wanted_B >= ranks).nonzero().flatten().tolist():
            found_B[row] = tile_BM[row].topk(int(wanted_B[row]) + 1).indices[-1]
        column_N[rows] = found_B
    return column_N, total / count
