"""MUSE: a rotation learned without any dictionary, by a game of two players (Conneau et al., 2018).

A discriminator sees words of both languages and learns which are source words that W has mapped; W learns to make that
impossible (section 2.1). With P(x) the discriminator's probability that x is a mapped source word, and H_t(p) =
-t log p - (1 - t) log(1 - p) the cross-entropy with the smoothed label t:

    discriminator   L_D = 1/n Σ_i H_{1-s}(P(x_i W)) + 1/m Σ_j H_s(P(z_j))
    mapping         L_W = 1/n Σ_i H_s(P(x_i W))                            the part that depends on W
    orthogonality   W ← (1 + β) W − β (W Wᵀ) W                             after each step of W (section 3.3)
    criterion       1/n Σ_i cos(x_i W, z_t(i)),  t(i) = argmax_j CSLS(x_i W, z_j)          (section 3.5)

The learning rate decays after each epoch, and is halved where the criterion fell; the best epoch is kept. Then, or
after Procrustes where there is a dictionary, come the refinements (section 2.2): Procrustes on the pairs of frequent
words that are mutually nearest by CSLS, and again; the best by the criterion is kept, the start being one of them.
W starts as the identity and moves in small steps: in a small or noisy space it may never find a rotation far from it.

Written from the paper. We differ from it in this:
- Vectors are normalised and centred first, as in our other methods. The players see them with length √D, so that an
  entry is about 1: with length 1 the same criterion took about twice the epochs. W then takes longer steps too; where
  it strays far from a rotation, a larger β (0.1) helps.
- The discriminator takes `discriminator_steps` for each step of W, and W learns from smoothed labels as well.
- An epoch is judged by the rotation nearest to its W, which is what is kept: a W that shrinks some directions brings
  all words nearer to each other, and the criterion would take that for good.
- Where lengths count (`normalise` is not `unit`), translations are those at a small distance: see `criteria`.
- Translations are looked for among the `frequent` words that the discriminator sees, not in the whole vocabulary, and
  a target word's neighbourhood is taken among the source words that the criterion translates: less to multiply.

Shapes: N and M words, B batch, S batches, D width, H and K units of a layer.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from babelray.errors import TrainingError
from babelray.mapping.criteria import comparable, nearness, semantic
from babelray.mapping.induction import induce
from babelray.mapping.linear import Dictionary, LinearMapping, prepared
from babelray.mapping.procrustes import rotation
from babelray.vectors.retrieval import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from babelray.mapping.bootstrapping import Constraint
    from babelray.mapping.config import MuseConfig
    from babelray.mapping.methods import Normalise, Similarity

    Advance = Callable[[int, float], None]

LEAK = 0.2
Layers = list[tuple["Tensor", "Tensor"]]
"""The discriminator: weights (H, K) and biases (K) of its layers."""


def discriminator(width: int, hidden: int, generator: torch.Generator) -> Layers:
    """Two hidden layers, drawn evenly within ±1/√(inputs)."""

    def even(inputs: int, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator).mul_(2).sub_(1).div_(math.sqrt(inputs))

    return [(even(a, a, b), even(a, b)) for a, b in pairwise((width, hidden, hidden, 1))]


def descend(layers: Layers, x_BD: Tensor, label_B1: Tensor, rate: float = 0.0) -> Tensor:
    """The slope (B, D) at the input of Σ H_label(P(x)); with a rate the layers take a step down theirs, in place.

    By hand, since a step that is added to the weights by the product that computes it needs no memory for slopes.
    """
    given = [x_BD]
    for weight_HK, bias_K in layers[:-1]:
        given.append(functional.leaky_relu_(torch.addmm(bias_K, given[-1], weight_HK), LEAK))
    weight_HK, bias_K = layers[-1]
    slope_BK = torch.addmm(bias_K, given[-1], weight_HK).sigmoid_() - label_B1
    for depth in range(len(layers) - 1, -1, -1):
        weight_HK, bias_K = layers[depth]
        below_BH = slope_BK @ weight_HK.T
        if rate:
            weight_HK.addmm_(given[depth].T, slope_BK, alpha=-rate)
            bias_K.sub_(slope_BK.sum(0), alpha=rate)
        slope_BK = torch.where(given[depth] > 0, below_BH, LEAK * below_BH) if depth else below_BH
    return slope_BK


def toward_rotation(w_DD: Tensor, beta: float) -> Tensor:
    """(1 + β) W − β (W Wᵀ) W: every singular value s becomes s + β s (1 - s²), nearer to 1."""
    return torch.addmm(w_DD, w_DD @ w_DD.T, w_DD, beta=1 + beta, alpha=-beta)


def play(
    sides: tuple[Tensor, Tensor],
    w_DD: Tensor,
    layers: Layers,
    rate: float,
    config: MuseConfig,
    generator: torch.Generator,
    constraint: Constraint | None = None,
) -> Tensor:
    """One epoch of the game: the next W; the discriminator's layers are changed in place.

    A constraint on W (see `bootstrapping`) is added to L_W.
    """
    (x_ND, z_MD), batch, steps = sides, config.batch, config.discriminator_steps
    told_B1 = torch.full((batch, 1), 1 - config.smoothing)
    label_B1 = torch.cat([told_B1, 1 - told_B1])
    for _ in range(config.steps):
        x_SBD = x_ND[torch.randint(len(x_ND), (steps + 1, batch), generator=generator)]
        z_SBD = z_MD[torch.randint(len(z_MD), (steps, batch), generator=generator)]
        mapped_SBD = x_SBD @ w_DD
        for mapped_BD, z_BD in zip(mapped_SBD, z_SBD, strict=False):
            seen_BD = torch.cat([mapped_BD, z_BD])
            descend(layers, seen_BD * dropout(seen_BD, config.input_dropout, generator), label_B1, rate / batch)
        kept_BD = dropout(mapped_SBD[-1], config.input_dropout, generator)
        slope_BD = descend(layers, mapped_SBD[-1] * kept_BD, 1 - told_B1) * kept_BD
        next_DD = torch.addmm(w_DD, x_SBD[-1].T, slope_BD, alpha=-rate / batch)
        if constraint is not None:
            next_DD.sub_(_slope(constraint, w_DD, sides, generator), alpha=rate)
        w_DD = toward_rotation(next_DD, config.orthogonality)
    return w_DD


def _slope(constraint: Constraint, w_DD: Tensor, sides: tuple[Tensor, Tensor], generator: torch.Generator) -> Tensor:
    """The slope (D, D) of a constraint at W."""
    free_DD = w_DD.clone().requires_grad_()
    return torch.autograd.grad(constraint(lambda x_BD: x_BD @ free_DD, *sides, generator), free_DD)[0]


def dropout(x_BD: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """What each entry is to be multiplied by: 0 for a share of them, and for the others what keeps the mean."""
    return torch.empty_like(x_BD).bernoulli_(1 - share, generator=generator).div_(1 - share)


def criterion(turned_ND: Tensor, z_MD: Tensor, csls: int, words: int, similarity: Similarity = "cosine") -> float:
    """The mean cosine of the first words and their translations by CSLS."""
    if similarity == "distance":
        return semantic(turned_ND, z_MD, csls, words, similarity="distance")
    turned_ND = turned_ND[:words]
    found_N = nearest(turned_ND, z_MD, csls=csls)[1].flatten()
    return functional.cosine_similarity(turned_ND, z_MD[found_N]).mean().item()


def adversarial(
    x_ND: Tensor,
    z_MD: Tensor,
    config: MuseConfig,
    generator: torch.Generator,
    advance: Advance,
    similarity: Similarity = "cosine",
    start_DD: Tensor | None = None,
    constraint: Constraint | None = None,
) -> Tensor:
    """The rotation nearest to the W of the epoch that the criterion says is best."""
    width = x_ND.shape[1]
    eye_DD = torch.eye(width)
    w_DD = best_DD = eye_DD if start_DD is None else start_DD
    layers = discriminator(width, config.hidden, generator)
    scale = torch.cat([x_ND, z_MD]).square().mean().sqrt()
    sides = x_ND / scale, z_MD / scale
    game = play if constraint is None else partial(play, constraint=constraint)
    rate, before, best = config.learning_rate, -math.inf, -math.inf
    for epoch in range(1, config.epochs + 1):
        w_DD = game(sides, w_DD, layers, rate, config, generator)
        if not w_DD.isfinite().all():
            break
        turn_DD = rotation(eye_DD, w_DD)
        value = criterion(x_ND @ turn_DD, z_MD, config.csls, config.criterion_words, similarity)
        advance(epoch, value)
        if value > best:
            best_DD, best = turn_DD, value
        rate *= config.decay if value >= before else config.decay / 2
        before = value
    if best == -math.inf:
        raise TrainingError("muse diverged in its first epoch: W is not finite", "Lower `learning_rate`.")
    return best_DD


def refine(
    x_ND: Tensor,
    z_MD: Tensor,
    w_DD: Tensor,
    config: MuseConfig,
    advance: Advance = lambda number, value: None,
    similarity: Similarity = "cosine",
) -> Tensor:
    """The best W, by the criterion, of the start and the refinements."""
    best_DD, best = w_DD, criterion(x_ND @ w_DD, z_MD, config.csls, config.criterion_words, similarity)
    x_cut, z_cut = x_ND[: config.refine_words], z_MD[: config.refine_words]
    for number in range(1, config.refinements + 1):
        found = induce(*comparable(x_cut @ w_DD, z_cut, similarity), csls=config.csls, direction="mutual")
        w_DD = rotation(x_cut[found.source_P], z_cut[found.target_P])
        value = criterion(x_ND @ w_DD, z_MD, config.csls, config.criterion_words, similarity)
        advance(number, value)
        if value > best:
            best_DD, best = w_DD, value
    return best_DD


def muse(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: MuseConfig,
    seed: int = 1,
    advance: Advance = lambda number, value: None,
    how: Normalise = "unit",
    before: LinearMapping | None = None,
    constraint: Constraint | None = None,
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides; `advance` is told the criterion of every epoch, then of every refinement.

    With a mapping `before` the game goes on from it, whatever the dictionary.
    """
    x_ND, mean_D = prepared(source_ND, how)
    z_MD, _ = prepared(target_MD, how)
    similarity = nearness(how)
    x_cut, z_cut = x_ND[: config.frequent], z_MD[: config.frequent]
    if dictionary is None or before is not None:
        done, generator = config.epochs, torch.Generator().manual_seed(seed)
        start_DD = None if before is None else before.matrix_DE
        w_DD = adversarial(x_cut, z_cut, config, generator, advance, similarity, start_DD, constraint)
    else:
        done, w_DD = 0, rotation(x_ND[dictionary[0]], z_MD[dictionary[1]])
    w_DD = refine(x_cut, z_cut, w_DD, config, lambda number, value: advance(done + number, value), similarity)
    return LinearMapping(mean_D, w_DD, how == "unit"), LinearMapping.identity(target_MD, how)
