"""The Sinkhorn divergence of many ragged pairs of sentences at once (Feydy et al., 2019), and its soft alignment.

    OT_ε(α, β) = min_π Σ_ij π_ij C(x_i, y_j) + ε KL(π, α ⊗ β)      π has the marginals α and β
    S_ε(α, β)  = OT_ε(α, β) − ½ OT_ε(α, α) − ½ OT_ε(β, β)          0 if α = β: "debiased"

α and β weigh the words x_i and y_j of two sentences alike; C is the distance (p = 1) or half its square (p = 2), and
ε = blur^p. At the optimum OT_ε is Σ_i a_i f_i + Σ_j b_j g_j of two dual potentials, each the soft minimum of the other:

    f_i = −ε log Σ_j b_j exp((g_j − C_ij) / ε),      g_j = −ε log Σ_i a_i exp((f_i − C_ij) / ε)

Both are updated at the same time, to the mean of their previous values and of these equations, while ε descends from
the size of the pair to its last value (section 3.3 of Feydy's thesis, 2020). Gradients pass through one more, full
update of a potential with the others fixed, and through nothing else, by the envelope theorem.

The descent of a pair depends on the pair alone, so the values are those of geomloss for every pair by itself. Pairs of
similar length are computed together, each with its own schedule of ε. Differences: points are centred first, which
changes only the rounding, and a pair with an empty side has the value 0.

Shapes: B pairs, S and T positions, D width; G pairs of a group, L words of its longest sentence, N = 2 L words of both
its sides (0 is the source, 1 the target), Q problems (see `PROBLEMS`), K iterations. Of two L the first are columns,
the second rows: pairs come last, so that a CPU sums and compares many of them at once, however short the sentences.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from babelray.errors import BabelrayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

PROBLEMS = ((0, 1), (1, 0), (0, 0), (1, 1))
"""Side of the rows, side of the columns: the pair in both directions, then each sentence with itself (debiased)."""
TWIN = (1, 0, 2, 3)
"""The problem whose potentials belong to the columns of each problem."""
SIGN = (1.0, 1.0, -1.0, -1.0)
"""The sign of Σ_i a_i f_i of each problem: for a sentence with itself f = g, so that the sum is ½ OT."""
CLOSEST = 1e-4
"""The lower bound of distances (p = 1); below it they have no gradient."""
NEGLIGIBLE = -50.0
"""The lower bound of exponents: e^−50 is negligible in a sum of at least 1, and exp is slow where it underflows."""
CELLS = 1 << 26
"""Maximum number of cells of cost matrices in memory at once: 256 MB."""
GROUP_CELLS = 1 << 16
"""On a CPU, the number of cells whose computation takes as long as the overhead of a group of pairs."""


class Descent(NamedTuple):
    """The schedule of the potentials: `iterations` more at the last ε; `problems`: 4 if debiased, else 2."""

    blur: float
    p: int
    scaling: float
    iterations: int
    problems: int

    @classmethod
    def checked(cls, blur: float, p: int, scaling: float, iterations: int | None, debias: bool) -> Descent:
        if p not in (1, 2) or blur <= 0 or not 0 < scaling < 1 or (iterations or 0) < 0:
            problem = f"no transport with p = {p}, blur = {blur}, scaling = {scaling}, iterations = {iterations}"
            raise BabelrayError(
                problem, "Set p to 1 or 2, blur above 0, scaling between 0 and 1, iterations to 0 or more."
            )
        return cls(blur, p, scaling, iterations or 0, 4 if debias else 2)

    def schedule(self, diameter_G: Tensor) -> tuple[Tensor, Tensor]:
        """ε (K, G) of every iteration, and the step (K, G) of the potentials: half way, or none.

        From diameter^p, once at the start and once as the first scale, by factors of scaling^p to blur^p. The
        potentials of pairs with fewer scales than others stay as they are for the rest.

        >>> descent = Descent.checked(blur=1, p=1, scaling=0.5, iterations=None, debias=True)
        >>> descent.schedule(torch.tensor([6.0, 1.5]))[0].T
        tensor([[6.0000, 6.0000, 3.0000, 1.5000, 1.0000],
                [1.5000, 1.5000, 1.0000, 1.0000, 1.0000]])
        """
        diameter_G = diameter_G.to("cpu", torch.float64)
        diameter_G = diameter_G.nan_to_num(self.blur, self.blur).clamp(min=self.blur / 1000)
        scales_G = ((self.blur / diameter_G).log() / math.log(self.scaling)).ceil().clamp(min=0)
        k_K1 = torch.arange(int(scales_G.max()) + 2).unsqueeze(1)
        blur_KG = torch.where(k_K1 > scales_G, self.blur, diameter_G * self.scaling ** (k_K1 - 1).clamp(min=0))
        half_KG = 0.5 * (k_K1 < scales_G + 2)
        more = (0, 0, 0, self.iterations)
        blur_KG = torch.nn.functional.pad(blur_KG, more, value=self.blur)
        return (blur_KG**self.p).float(), torch.nn.functional.pad(half_KG, more, value=0.5).float()


def sinkhorn_divergence(
    source_BSD: Tensor,
    source_mask_BS: Tensor,
    target_BTD: Tensor,
    target_mask_BT: Tensor,
    blur: float = 0.05,
    p: int = 2,
    scaling: float = 0.5,
    iterations: int | None = None,
    debias: bool = True,
) -> Tensor:
    """S_ε of each pair (B,) in float32, with uniform weights over the positions where the masks are set.

    `blur` is the finest scale in the units of the vectors, `scaling` the factor from one scale to the next. There is
    one iteration at each scale, and `iterations` more at the last one: for long descents potentials may not have
    converged without them. Without `debias` the value is OT_ε. Other positions do not affect the value and have no
    gradient; neither does a pair with an empty side, whose value is 0.

    >>> points, mask = torch.tensor([[[0.0], [2.0]]]), torch.ones(1, 2)
    >>> sinkhorn_divergence(points, mask, points + 3, mask).round(decimals=3)
    tensor([4.5000])
    """
    descent = Descent.checked(blur, p, scaling, iterations, debias)
    masks = source_mask_BS.bool(), target_mask_BT.bool()
    value_B: Tensor = _Divergence.apply(source_BSD, target_BTD, *masks, descent)
    return value_B


@torch.no_grad()
def transport_plan(
    source_BSD: Tensor,
    source_mask_BS: Tensor,
    target_BTD: Tensor,
    target_mask_BT: Tensor,
    blur: float = 0.05,
    p: int = 2,
    scaling: float = 0.5,
    iterations: int | None = None,
) -> Tensor:
    """The soft alignment of each pair (B, S, T): π_ij = a_i b_j exp((f_i + g_j − C_ij) / ε), 0 where a mask is not set.

    The marginals are met only as far as the iterations converge: f is the last update, so that rows sum to a_i
    always, while columns come near b_j with `iterations`. It has no gradient.

    >>> points, mask = torch.tensor([[[0.0], [2.0]]]), torch.ones(1, 2)
    >>> transport_plan(points, mask, points.flip(1), mask).round(decimals=3)
    tensor([[[0.0000, 0.5000],
             [0.5000, 0.0000]]])
    """
    descent = Descent.checked(blur, p, scaling, iterations, debias=False)
    plan_BST = source_BSD.new_zeros(*source_mask_BS.shape, target_mask_BT.shape[1], dtype=torch.float32)
    with torch.autocast(source_BSD.device.type, enabled=False):
        for group in _groups(source_mask_BS.bool(), target_mask_BT.bool()):
            shares_LLQG = _solve(group, group.gather(source_BSD, target_BTD), descent).shares_LLQG
            plan_LLG = shares_LLQG[:, :, 0] * group.weight_L2G[:, 0] * group.mask_L2G[:, 1].unsqueeze(1)
            rows_GS, columns_GT = group.places
            cells = group.members_G[:, None, None], rows_GS.unsqueeze(2), columns_GT.unsqueeze(1)
            plan_BST[cells] = plan_LLG[: columns_GT.shape[1], : rows_GS.shape[1]].permute(2, 1, 0)
    return plan_BST


class _Divergence(torch.autograd.Function):
    """The value with its gradient in closed form. With the others fixed, a potential is a soft minimum of costs, and

        ∂f_i/∂z_i = Σ_j P_ij ∂C(z_i, z_j)/∂z_i,      P_ij the share of j in the soft minimum of i

    ∂C/∂z_i is z_i − z_j for p = 2, and that divided by the distance for p = 1: a matrix of pulls times all words.
    """

    @staticmethod
    def forward(
        ctx: Any, source_BSD: Tensor, target_BTD: Tensor, source_mask_BS: Tensor, target_mask_BT: Tensor, d: Descent
    ) -> Tensor:
        value_B = source_BSD.new_zeros(len(source_BSD), dtype=torch.float32)
        ctx.sides = [(side.shape, side.dtype) for side in (source_BSD, target_BTD)]
        ctx.groups, saved = [], []
        with torch.autocast(source_BSD.device.type, enabled=False):
            for group in _groups(source_mask_BS, target_mask_BT):
                points_GND = group.gather(source_BSD, target_BTD)
                solution = _solve(group, points_GND, d)
                sign_Q1 = points_GND.new_tensor(SIGN[: d.problems]).unsqueeze(1)
                weight_LQG = group.weight_L2G[:, [row for row, _ in PROBLEMS[: d.problems]]] * sign_Q1
                value_B[group.members_G] = (weight_LQG * solution.potential_LQG).sum((0, 1))
                if any(ctx.needs_input_grad):
                    ctx.groups.append(group)
                    saved += [points_GND, _pulls(solution, weight_LQG, d.p)]
        ctx.save_for_backward(*saved)
        return value_B

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_B: Tensor) -> tuple[Tensor | None, ...]:
        sides = [gradient_B.new_zeros(shape, dtype=dtype) for shape, dtype in ctx.sides]
        saved = iter(ctx.saved_tensors)
        with torch.autocast(gradient_B.device.type, enabled=False):
            for group, points_GND, pull_GNN in zip(ctx.groups, saved, saved, strict=True):
                pulled_GND = (pull_GNN * gradient_B[group.members_G, None, None]) @ points_GND
                for side, half_GLD, places in zip(sides, pulled_GND.chunk(2, 1), group.places, strict=True):
                    side[group.members_G.unsqueeze(1), places] = half_GLD[:, : places.shape[1]].to(side.dtype)
        return sides[0], sides[1], None, None, None


class _Group(NamedTuple):
    """Pairs of similar length, neither side empty: their rows, and the positions of their words, real ones first."""

    members_G: Tensor
    places: tuple[Tensor, Tensor]
    mask_L2G: Tensor
    weight_L2G: Tensor

    def gather(self, source_BSD: Tensor, target_BTD: Tensor) -> Tensor:
        """Centred words of both sides (G, N, D); a sentence is padded with its own first word."""
        slot_L = torch.arange(len(self.mask_L2G), device=source_BSD.device)
        sides = []
        for side, (points, places) in enumerate(zip((source_BSD, target_BTD), self.places, strict=True)):
            slot_GL = torch.where(self.mask_L2G[:, side].T, slot_L, 0)
            sides.append(points[self.members_G.unsqueeze(1), places.gather(1, slot_GL)])
        points_GND = torch.cat(sides, 1).float()
        return points_GND.sub_(points_GND.mean(1, keepdim=True))


def _groups(source_mask_BS: Tensor, target_mask_BT: Tensor) -> list[_Group]:
    """Groups of the pairs that have words on both sides, with little padding."""
    device, masks = source_mask_BS.device, (source_mask_BS, target_mask_BT)
    length_2B = torch.stack([mask.sum(1) for mask in masks]).cpu()
    longest_B = torch.where((length_2B > 0).all(0), length_2B.amax(0), 0)
    order_B = longest_B.argsort(descending=True, stable=True)
    falling = [length for length in longest_B[order_B].tolist() if length]
    places = [mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True) for mask in masks]
    groups = []
    for start, end in _cuts(falling, GROUP_CELLS if device.type == "cpu" else CELLS):
        longest, members_G = falling[start], order_B[start:end]
        mask_L2G = (torch.arange(longest)[:, None, None] < length_2B[:, members_G]).to(device)
        members_G = members_G.to(device)
        positions = places[0][members_G, :longest], places[1][members_G, :longest]
        groups.append(_Group(members_G, positions, mask_L2G, mask_L2G / mask_L2G.sum(0)))
    return groups


def _cuts(lengths: Sequence[int], overhead: int) -> list[tuple[int, int]]:
    """The bounds of groups of descending lengths: a cut wherever shorter matrices save more than a group costs.

    >>> _cuts([40, 38, 20, 19], overhead=2000)
    [(0, 2), (2, 4)]
    """
    cuts = [0]
    for i, length in enumerate(lengths):
        cells = 4 * lengths[cuts[-1]] ** 2
        saved = (len(lengths) - i) * (cells - 4 * length**2)
        if i > cuts[-1] and (saved > overhead or (i - cuts[-1] + 1) * cells > CELLS):
            cuts.append(i)
    return list(zip(cuts, [*cuts[1:], len(lengths)], strict=True)) if lengths else []


class _Solution(NamedTuple):
    """The costs of every problem, its potential on the rows, and the shares of the columns in each row."""

    cost_LLQG: Tensor
    potential_LQG: Tensor
    shares_LLQG: Tensor


def _solve(group: _Group, points_GND: Tensor, descent: Descent) -> _Solution:
    problems, device = PROBLEMS[: descent.problems], points_GND.device
    twin_Q = torch.tensor(TWIN[: descent.problems], device=device)
    log_LQG = group.weight_L2G.log()[:, [column for _, column in problems]]
    diameter_G = (points_GND.amax(1) - points_GND.amin(1)).norm(dim=1)
    epsilon_KG, step_KG = (part.to(device) for part in descent.schedule(diameter_G))
    inverse_KQG = (1 / epsilon_KG).unsqueeze(1).repeat(1, len(problems), 1)
    cost_LLQG = _costs(points_GND, descent)
    buffer_LLQG = torch.empty_like(cost_LLQG)

    def update(twin_LQG: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """−ε log Σ_j exp(log b_j + (g_j − C_ij) / ε), and the sum of the exponentials, which are at most 1."""
        height_LQG = torch.addcmul(log_LQG, twin_LQG, inverse_KQG[k])
        torch.addcmul(height_LQG.unsqueeze(1), cost_LLQG, inverse_KQG[k], value=-1, out=buffer_LLQG)
        peak_LQG = buffer_LLQG.amax(0)
        total_LQG = buffer_LLQG.sub_(peak_LQG).clamp_(min=NEGLIGIBLE).exp_().sum(0)
        return peak_LQG.add_(total_LQG.log()).mul_(-epsilon_KG[k]), total_LQG

    potential_LQG, _ = update(torch.zeros_like(log_LQG), 0)
    for k, step_G in enumerate(step_KG):
        potential_LQG.lerp_(update(potential_LQG.index_select(1, twin_Q), k)[0], step_G)
    potential_LQG, total_LQG = update(potential_LQG.index_select(1, twin_Q), -1)
    return _Solution(cost_LLQG, potential_LQG, buffer_LLQG.div_(total_LQG))


def _costs(points_GND: Tensor, descent: Descent) -> Tensor:
    """C of every problem (L, L, Q, G), from one product of all words of a pair with each other."""
    product_GNN = points_GND @ points_GND.mT
    half_GN = product_GNN.diagonal(dim1=1, dim2=2) / 2
    cost_GNN = (half_GN.unsqueeze(2) - product_GNN).add_(half_GN.unsqueeze(1))
    if descent.p == 1:
        cost_GNN.clamp_(min=0).mul_(2).sqrt_().clamp_(min=CLOSEST)
    cost_2L2LG = cost_GNN.unflatten(2, (2, -1)).unflatten(1, (2, -1)).permute(3, 4, 1, 2, 0)
    return torch.stack([cost_2L2LG[column, :, row] for row, column in PROBLEMS[: descent.problems]], 2)


def _pulls(solution: _Solution, weight_LQG: Tensor, p: int) -> Tensor:
    """The matrix (G, N, N) that, times the words, is the gradient at the words; every row sums to zero."""
    pull_LLQG = solution.shares_LLQG.mul_(weight_LQG)
    if p == 1:
        pull_LLQG.div_(solution.cost_LLQG).masked_fill_(solution.cost_LLQG <= CLOSEST, 0)
    length, _, count, pairs = pull_LLQG.shape
    pull_G2L2L = pull_LLQG.new_zeros(pairs, 2, length, 2, length)
    for q, (row, column) in enumerate(PROBLEMS[:count]):
        pull_G2L2L[:, row, :, column] = -pull_LLQG[:, :, q].permute(2, 1, 0)
    pull_GNN = pull_G2L2L.flatten(3, 4).flatten(1, 2)
    pull_GNN.diagonal(dim1=1, dim2=2).sub_(pull_GNN.sum(2))
    return pull_GNN
