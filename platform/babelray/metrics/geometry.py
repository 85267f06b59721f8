"""What a space looks like, without any translation: its languages, its spectrum, its hubs, its directions.

`language_identification`    can a linear probe tell the language? (not if the space is language-neutral)
`singular_value_gap`         have two spaces the same spread in every direction? (a rotation can then align them)
`eigenvector_similarity`     have two spaces the same neighbourhoods?
`hubness`                    are a few vectors near neighbours of everything?
`anisotropy`                 do all vectors point the same way?

Shapes: N, M vectors, D width, L languages, F vectors of a fold, k neighbours.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from babelray.errors import DataError
from babelray.vectors.retrieval import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

ENERGY = 0.9
"""The share of a Laplacian's spectrum that is compared."""
ROWS = 1 << 13
"""Vectors that are held in double precision at once."""


def language_identification(
    vectors: Mapping[str, Tensor], folds: int = 5, seed: int = 1, most: int = 1000, l2: float = 1.0
) -> dict[str, Any]:
    """Language neutrality: how well a linear probe tells the language of a vector (Libovický et al., 2020).

    The probe is a multinomial logistic regression on standardised vectors,

        min_{W, b}  Σ_n −log softmax(W x_n + b)_{l(n)}  +  l2/2 ‖W‖²

    fitted on all folds but one and asked about that one. `accuracy` is the share of right answers over all folds,
    `by_language` each language's own. Lower is better: `chance`, 1/L, is a space in which languages cannot be
    distinguished, 1 one in which each has a region of its own.

    Every language gives the same number of vectors (`vectors`): at most `most`, drawn among the first N of each, where
    N is what the shortest has. Row i of all languages is drawn and held out together, so that rows may be parallel:
    were they parted, a probe would have seen a sentence's translations but not the sentence, and would answer any
    language but the right one, which puts a perfectly neutral space below chance.

    The paper trains once on many sentences and asks about others; here folds make the most of few.
    """
    inputs_LND = _equal_parts(vectors, folds, seed, most)
    languages, count, _ = inputs_LND.shape
    expected_L1 = torch.arange(languages, device=inputs_LND.device).unsqueeze(1)
    right_LN = torch.zeros(languages, count, dtype=torch.bool, device=inputs_LND.device)
    for fold_F in torch.arange(count, device=inputs_LND.device).tensor_split(folds):
        train_LMD = inputs_LND[:, _without(count, fold_F)]
        logits_LFL = _probe(train_LMD, inputs_LND[:, fold_F], l2)
        right_LN[:, fold_F] = logits_LFL.argmax(2) == expected_L1
    accuracy_L = right_LN.double().mean(1)
    return {
        "accuracy": accuracy_L.mean().item(),
        "chance": 1 / languages,
        "by_language": dict(zip(vectors, accuracy_L.tolist(), strict=True)),
        "vectors": count,
    }


def singular_value_gap(x_ND: Tensor, y_MD: Tensor) -> dict[str, float]:
    """How far the spectra of two spaces are apart (Dubossarsky et al., 2020, §2).

    With σ_1 ≥ … ≥ σ_D the singular values of the centred vectors, divided by √N,

        gap = Σ_i (log σ_i(X) − log σ_i(Y))²
        effective_rank = ⌊exp H(σ / Σ_j σ_j)⌋                 H: entropy (Roy and Vetterli, 2007)
        effective_condition = σ_1 / σ_effective_rank

    A rotation changes none of them, so `gap` is 0 if one maps X to Y, and the smaller, the more alike. The smaller the
    effective condition number, the better a space can be mapped; `effective_condition` is the harmonic mean of both.

    We differ from the paper in two points. √N makes spaces of unequal size comparable. And a singular value that is
    zero up to rounding has no logarithm worth comparing: `dimensions` says how many first ones were compared. An
    encoder's last layer norm, for one, takes a direction from its vectors.

    >>> x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> [round(singular_value_gap(x, y)["gap"], 6) for y in (x.flip(1), math.e * x)]
    [0.0, 2.0]
    """
    _same_width(x_ND, y_MD)
    source, target = _spectrum(x_ND, "the first space"), _spectrum(y_MD, "the second space")
    dimensions = min(len(source), len(target))
    gap = (source[:dimensions].log() - target[:dimensions].log()).square().sum().item()
    ranks = [_effective_rank(values) for values in (source, target)]
    conditions = [(values[0] / values[rank - 1]).item() for values, rank in zip((source, target), ranks, strict=True)]
    return {
        "gap": gap,
        "dimensions": dimensions,
        "effective_condition": 2 / (1 / conditions[0] + 1 / conditions[1]),
        "source_effective_rank": ranks[0],
        "target_effective_rank": ranks[1],
        "source_effective_condition": conditions[0],
        "target_effective_condition": conditions[1],
    }


def eigenvector_similarity(x_ND: Tensor, y_MD: Tensor, words: int = 10_000, neighbours: int = 1) -> float:
    """How unlike the neighbourhoods of two spaces are, by the spectra of their graphs (Søgaard et al., 2018).

    In the graph of a space, words are joined if one is among the other's nearest `neighbours`; L is its Laplacian,
    degrees less adjacency, with eigenvalues λ_1 ≥ λ_2 ≥ …

        Δ = Σ_{i ≤ k} (λ_i(X) − λ_i(Y))²      k = min_{Z ∈ {X, Y}} min {k : Σ_{i ≤ k} λ_i(Z) ≥ 0.9 Σ_i λ_i(Z)}

    Despite its name, it is a distance: 0 if the graphs are isomorphic (or only have the same spectrum); the smaller,
    the more alike. Rows are words, the most frequent first; of both the same number is taken, at most `words`.

    Neighbours are found by cosine after centring unit vectors, as in Vulić et al. (2020); one neighbour and 10,000
    words are theirs too. The distance grows with the number of words: compare only what was computed with the same.
    """
    count = min(words, len(x_ND), len(y_MD))
    x_ND, y_MD = x_ND[:count], y_MD[:count]
    _checked(x_ND, "the first space", neighbours + 2)
    _checked(y_MD, "the second space", neighbours + 2)
    spectra = [laplacian_spectrum(_others(_centred(side_ND), neighbours)) for side_ND in (x_ND, y_MD)]
    k = min(_holding(spectrum, ENERGY) for spectrum in spectra)
    return (spectra[0][:k] - spectra[1][:k]).square().sum().item()


def laplacian_spectrum(neighbours_Nk: Tensor) -> Tensor:
    """The eigenvalues (N,) of the Laplacian of the graph that joins i and j if j is in row i, largest first.

    The spectrum of a graph is that of its connected components together. A graph of nearest neighbours has many, all
    small: a thousandth of the work and memory that the whole matrix would take.

    >>> laplacian_spectrum(torch.tensor([[1], [0], [1]])).round(decimals=6).tolist()  # a path of three
    [3.0, 1.0, 0.0]
    """
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, width = neighbours_Nk.shape
    locations = (np.repeat(np.arange(count), width), neighbours_Nk.flatten().cpu().numpy())
    directed = coo_array((np.ones(count * width), locations), shape=(count, count)).tocsr()
    joined = ((directed + directed.T) > 0).astype(float)
    components = connected_components(joined, directed=False)[1]
    order = np.argsort(components, kind="stable")
    joined = joined[order][:, order]
    eigenvalues, start = [], 0
    for size in np.bincount(components).tolist():
        block = torch.from_numpy(joined[start : start + size, start : start + size].toarray())
        eigenvalues.append(torch.linalg.eigvalsh(block.sum(1).diag() - block))
        start += size
    return torch.cat(eigenvalues).clamp(min=0).sort(descending=True).values


def hubness(queries_ND: Tensor, pool_MD: Tensor | None = None, k: int = 10) -> dict[str, float]:
    """How unequally the vectors of a pool are chosen as neighbours (Radovanović et al., 2010).

    With N_k(y) the number of queries that have y among their k nearest by cosine,

        skewness = E[(N_k − E N_k)³] / Var(N_k)^{3/2}        antihubs = share of the pool with N_k = 0

    Lower is better: with hubs, which the skewness shows, nearest neighbours are wrong for many words at once, and an
    antihub is never found as a translation. Without a pool the queries are their own, as in the paper, where no vector
    is its own neighbour; across languages the queries are one language's and the pool another's.

    >>> hubness(torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2]]), torch.eye(2), k=1)
    {'skewness': 0.0, 'antihubs': 0.5}
    """
    _checked(queries_ND, "the queries", 1)
    pool_size = len(queries_ND) - 1 if pool_MD is None else len(pool_MD)
    if not 1 <= k < pool_size:
        problem = f"k is {k}, but a query has {pool_size} vectors to choose among"
        raise DataError(problem, "Give a k of at least 1, and more vectors than k.")
    if pool_MD is None:
        found_Nk, size = _others(queries_ND, k), len(queries_ND)
    else:
        _checked(pool_MD, "the pool", 1)
        _same_width(queries_ND, pool_MD)
        found_Nk, size = nearest(queries_ND, pool_MD, k)[1], len(pool_MD)
    chosen_M = torch.bincount(found_Nk.flatten(), minlength=size).double()
    off_M = chosen_M - chosen_M.mean()
    variance = off_M.square().mean()
    skewness = (off_M.pow(3).mean() / variance.pow(1.5)).item() if variance > 0 else 0.0
    return {"skewness": skewness, "antihubs": (chosen_M == 0).double().mean().item()}


def anisotropy(vectors_ND: Tensor) -> dict[str, float]:
    """How far a space is from using all its directions alike.

        mean_cosine      1/(N(N−1)) Σ_{i≠j} cos(x_i, x_j) = (‖Σ_i u_i‖² − Σ_i ‖u_i‖²) / (N(N−1))      u = x/‖x‖
        first_component  λ_1 / Σ_i λ_i                   λ: eigenvalues of the covariance, largest first
        isoscore         ((Σ_i λ_i)² / Σ_i λ_i² − 1) / (D − 1)

    The mean cosine of random pairs (Ethayarajh, 2019) is 0 for directions that balance and 1 for a single one.
    The paper draws pairs; the closed form is that of all of them, at the cost of one reading. `first_component` is its
    bound on how much of the variance a static vector could hold, here of the whole space: 1/D is isotropic, 1 a line.
    Both are better low. `isoscore` (Rudman et al., 2022) is better high: 1 if the variance is the same in all
    directions, 0 if there is but one. It does not see a mean that is off the origin, which the mean cosine does. The
    paper's chain of normalisations comes down to the equation above.

    Of fewer vectors than dimensions the variance cannot fill all directions: compare the like. Vectors that are all
    the same have the worst values, a vector of zeros has cosine 0 with all.

    >>> anisotropy(torch.cat([torch.eye(2), -torch.eye(2)]))  # four: two pairs of six are opposites
    {'mean_cosine': -0.3333333333333333, 'first_component': 0.5, 'isoscore': 1.0}
    """
    _checked(vectors_ND, "the vectors", 2)
    count, width = vectors_ND.shape
    if width < 2:
        raise DataError("vectors of one dimension have one direction only", "Give vectors of two or more dimensions.")
    mean_D = torch.stack([block_BD.double().sum(0) for block_BD in vectors_ND.split(ROWS)]).sum(0) / count
    total_D, squares, covariance_DD = torch.zeros_like(mean_D), 0.0, mean_D.new_zeros(width, width)
    for block_BD in vectors_ND.split(ROWS):
        unit_BD, off_BD = functional.normalize(block_BD.double()), block_BD.double() - mean_D
        total_D += unit_BD.sum(0)
        squares += unit_BD.square().sum().item()
        covariance_DD += off_BD.T @ off_BD
    spread_D = torch.linalg.eigvalsh(covariance_DD).clamp(min=0)
    spread = spread_D.sum().item()
    flat = spread <= torch.finfo(torch.float64).eps * count * mean_D.square().sum().item()
    used = 1.0 if flat else spread**2 / spread_D.square().sum().item()
    return {
        "mean_cosine": (total_D.square().sum().item() - squares) / (count * (count - 1)),
        "first_component": 1.0 if flat else spread_D.max().item() / spread,
        "isoscore": (used - 1) / (width - 1),
    }


def _equal_parts(vectors: Mapping[str, Tensor], folds: int, seed: int, most: int) -> Tensor:
    """The same rows (L, N, D) of every language, in an order drawn by the seed."""
    if len(vectors) < 2:
        raise DataError(f"vectors of {len(vectors)} language", "Give those of at least two: a probe tells them apart.")
    if folds < 2:
        raise DataError(f"folds is {folds}", "Give at least 2: a probe is asked about what it was not fitted on.")
    first, *others = vectors.values()
    for code, matrix_ND in vectors.items():
        _checked(matrix_ND, code, folds)
    for matrix_ND in others:
        _same_width(first, matrix_ND)
    rows = torch.randperm(min(map(len, vectors.values())), generator=torch.Generator().manual_seed(seed))[:most]
    if len(rows) < folds:
        raise DataError(f"{len(rows)} vectors of a language for {folds} folds", "Give fewer folds or more vectors.")
    return torch.stack([matrix_ND[rows.to(matrix_ND.device)].double() for matrix_ND in vectors.values()])


def _without(count: int, fold_F: Tensor) -> Tensor:
    rest_N = torch.ones(count, dtype=torch.bool, device=fold_F.device)
    rest_N[fold_F] = False
    return rest_N


def _probe(train_LMD: Tensor, test_LFD: Tensor, l2: float, steps: int = 500) -> Tensor:
    """The logits (L, F, L) of a logistic regression that was fitted on the first and is asked about the second."""
    languages, count, width = train_LMD.shape
    mean_D, scale_D = train_LMD.mean((0, 1)), train_LMD.std((0, 1), correction=0)
    scale_D = torch.where(scale_D > 1e-10 * mean_D.abs(), scale_D, torch.ones_like(scale_D))

    def standardised(x_LND: Tensor) -> Tensor:
        return functional.pad((x_LND - mean_D) / scale_D, (0, 1), value=1.0)  # the last column meets the bias

    train_ND = standardised(train_LMD).flatten(0, 1)
    labels_N = torch.arange(languages, device=train_ND.device).repeat_interleave(count)
    hot_NL = functional.one_hot(labels_N, languages).to(train_ND)
    weights_DL = train_ND.new_zeros(width + 1, languages)
    penalty_D1 = train_ND.new_full((width + 1, 1), l2 / len(train_ND))
    penalty_D1[-1] = 0
    optimizer = torch.optim.LBFGS(
        [weights_DL], max_iter=steps, tolerance_grad=1e-6, tolerance_change=1e-10, line_search_fn="strong_wolfe"
    )

    def loss() -> float:
        """The mean loss; its gradient is written out, so that it can be had where torch records none."""
        log_NL = (train_ND @ weights_DL).log_softmax(1)
        penalised_DL = penalty_D1 * weights_DL
        weights_DL.grad = train_ND.T @ (log_NL.exp() - hot_NL) / len(train_ND) + penalised_DL
        return -(log_NL * hot_NL).sum().item() / len(train_ND) + (penalised_DL * weights_DL).sum().item() / 2

    optimizer.step(loss)
    return standardised(test_LFD) @ weights_DL


def _spectrum(vectors_ND: Tensor, name: str) -> Tensor:
    """The singular values of the centred vectors that are not zero up to the rounding of their type, over √N."""
    _checked(vectors_ND, name, 2)
    double_ND = vectors_ND.double()
    values = torch.linalg.svdvals(double_ND - double_ND.mean(0)) / math.sqrt(len(vectors_ND))
    length = double_ND.square().sum(1).mean().sqrt()  # before centring: that is what was rounded
    nonzero = values[values > 10 * torch.finfo(vectors_ND.dtype).eps * length]
    if not len(nonzero):
        raise DataError(f"{name}: all vectors are the same", "Give vectors of different words or sentences.")
    return nonzero.cpu()


def _effective_rank(values: Tensor) -> int:
    shares = values / values.sum()
    return int(torch.special.entr(shares).sum().exp().item() + 1e-9)  # an isotropic space has rank D, not D − 1


def _centred(vectors_ND: Tensor) -> Tensor:
    unit_ND = functional.normalize(vectors_ND.double())
    return unit_ND - unit_ND.mean(0)


def _others(vectors_ND: Tensor, k: int) -> Tensor:
    """Positions (N, k) of each vector's nearest among the others."""
    positions = nearest(vectors_ND, vectors_ND, k + 1)[1]
    is_other = positions != torch.arange(len(positions), device=positions.device).unsqueeze(1)
    is_other[is_other.all(1), -1] = False  # its copies came before it
    return positions[is_other].view(-1, k)


def _holding(values: Tensor, share: float) -> int:
    """How many of the first values it takes to hold this share of the sum."""
    return int((values.cumsum(0) < share * values.sum()).sum()) + 1


def _checked(vectors_ND: Tensor, name: str, least: int) -> None:
    if vectors_ND.dim() != 2 or not vectors_ND.is_floating_point():
        problem = f"{name}: {vectors_ND.dtype} of shape {tuple(vectors_ND.shape)} is no matrix of vectors"
        raise DataError(problem, "Give real numbers, a row for each vector.")
    if len(vectors_ND) < least:
        raise DataError(f"{name}: {len(vectors_ND)} vectors, at least {least} are needed", "Give more.")
    bad = (~vectors_ND.isfinite()).any(1).nonzero()
    if len(bad):
        problem = f"{name}: row {int(bad[0])} has a number that is infinite or not a number"
        raise DataError(problem, "Look for what went wrong before: a diverged training, a damaged file.")


def _same_width(x_ND: Tensor, y_MD: Tensor) -> None:
    if x_ND.shape[-1] != y_MD.shape[-1]:
        problem = f"vectors of {x_ND.shape[-1]} and of {y_MD.shape[-1]} dimensions cannot be compared"
        raise DataError(problem, "Give vectors of the same model, or map both into one space first.")
