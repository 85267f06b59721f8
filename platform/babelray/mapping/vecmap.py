"""VecMap: both spaces mapped to a common one in steps, and self-learning from a small dictionary, or from none.

The steps (Artetxe, Labaka and Agirre, 2018a), with X and Z the vectors of the dictionary's pairs, row by row:

    0  length-normalise, centre, length-normalise                 (`linear.unit_centred`)
    1  whiten          X ← X Wx,  Wx = (XᵀX)^(-1/2);              likewise Z ← Z Wz
    2  rotate          U S Vᵀ = svd(Xᵀ Z);  X ← X U,  Z ← Z V
    3  re-weight       X ← X S^a,  Z ← Z S^b                       symmetric: a = b = ½; source: a = 1, b = 0
    4  de-whiten       X ← X Uᵀ Wx⁻¹ U,  Z ← Z Vᵀ Wz⁻¹ V
    5  keep the first dimensions, which correlate most

Self-learning (Artetxe et al., 2018b): rotate by the dictionary (step 2 alone, which is Procrustes), induce a new
dictionary from the most frequent words by CSLS in both directions, and again; each cell of the similarity matrix is
kept with a probability that starts at 0.1 and doubles when the objective stalls; when it has stalled with all cells
kept, map by all steps.
Without any dictionary the first one comes from the words' own similarity distributions: two words that translate
each other have, sorted, about the same similarities to all other words of their languages.

Written from the papers. Where hub and language must share a space that other languages share too, re-weight the source
only: the target's mapping is then a rotation, and can be undone.

Shapes: N and M words, P pairs, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from babelray.mapping.induction import Inducer, induce
from babelray.mapping.linear import Dictionary, LinearMapping, unit_centred
from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from babelray.mapping.config import VecMapConfig


@dataclass(frozen=True)
class Steps:
    """The matrices (D, E) that map each side."""

    source_DE: Tensor
    target_DE: Tensor


def all_steps(
    x_PD: Tensor, z_PD: Tensor, reweight: Literal["symmetric", "source", "none"], dimensions: int | None = None
) -> Steps:
    """Steps 1 to 5, in double precision."""
    x_PD, z_PD = x_PD.double(), z_PD.double()
    whiten_x, undo_x = _whitening(x_PD)
    whiten_z, undo_z = _whitening(z_PD)
    u_DD, s_D, vt_DD = torch.linalg.svd(whiten_x.T @ (x_PD.T @ z_PD) @ whiten_z)
    v_DD = vt_DD.T
    a, b = {"symmetric": (0.5, 0.5), "source": (1.0, 0.0), "none": (0.0, 0.0)}[reweight]
    source_DD = whiten_x @ u_DD * s_D**a @ (u_DD.T @ undo_x @ u_DD)
    target_DD = whiten_z @ v_DD * s_D**b @ (v_DD.T @ undo_z @ v_DD)
    return Steps(source_DD[:, :dimensions].float(), target_DD[:, :dimensions].float())


def _whitening(x_PD: Tensor) -> tuple[Tensor, Tensor]:
    """(XᵀX)^(-1/2) and its inverse; directions that the pairs do not span are left alone."""
    values_D, vectors_DD = torch.linalg.eigh(x_PD.T @ x_PD)
    root_D = values_D.clamp(min=0).sqrt()
    root_D = torch.where(root_D > 1e-6 * root_D.max(), root_D, torch.ones_like(root_D))
    return vectors_DD / root_D @ vectors_DD.T, vectors_DD * root_D @ vectors_DD.T


def similarity_dictionary(x_ND: Tensor, z_MD: Tensor, words: int = 4000, csls: int = 10) -> Dictionary:
    """A first dictionary without any supervision, of the most frequent words (Artetxe et al., 2018b, section 3.2)."""
    count = min(words, len(x_ND), len(z_MD))
    found = induce(_profile(x_ND[:count]), _profile(z_MD[:count]), csls)
    return found.source_P, found.target_P


def _profile(x_ND: Tensor) -> Tensor:
    """Each word's similarities to all words, sorted and normalised: the rows of √(XXᵀ) = U S Uᵀ, where X = U S Vᵀ."""
    u_ND, s_D, _ = torch.linalg.svd(x_ND, full_matrices=False)
    similar_NN = ((u_ND * s_D) @ u_ND.T).sort(dim=1).values
    return unit_centred(similar_NN)[0]


def self_learn(
    x_ND: Tensor,
    z_MD: Tensor,
    dictionary: Dictionary,
    config: VecMapConfig,
    seed: int,
    advance: Callable[[int, float, float], None] = lambda iteration, keep, objective: None,
) -> Dictionary:
    """The dictionary that self-learning ends with; `advance` is told iteration, share of cells kept and objective."""
    generator = torch.Generator().manual_seed(seed)
    x_cut, z_cut = x_ND[: config.cutoff], z_MD[: config.cutoff]
    inducer = Inducer(len(x_cut), len(z_cut), config.csls, x_cut.device)
    keep, best, improved, iteration = config.keep, -1.0, 0, 0
    source_P, target_P = dictionary
    while iteration < config.max_iterations:
        iteration += 1
        turned_ND = x_cut @ rotation(x_ND[source_P], z_MD[target_P])
        found = inducer(turned_ND, z_cut, keep, generator)
        source_P, target_P = found.source_P, found.target_P
        advance(iteration, keep, found.objective)
        if found.objective - best > config.threshold:
            best, improved = found.objective, iteration
        elif iteration - improved >= config.patience:
            if keep >= 1:
                break
            keep, improved = min(1.0, keep * 2), iteration
    return source_P, target_P


def vecmap(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: VecMapConfig,
    seed: int = 1,
    advance: Callable[[int, float, float], None] = lambda iteration, keep, objective: None,
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides. With a dictionary and no self-learning it is supervised; without one, unsupervised."""
    x_ND, x_mean = unit_centred(source_ND)
    z_MD, z_mean = unit_centred(target_MD)
    if dictionary is None:
        dictionary = similarity_dictionary(x_ND, z_MD, config.start_words, config.csls)
    if config.self_learning:
        dictionary = self_learn(x_ND, z_MD, dictionary, config, seed, advance)
    steps = all_steps(x_ND[dictionary[0]], z_MD[dictionary[1]], config.reweight, config.dimensions)
    return LinearMapping(x_mean, steps.source_DE), LinearMapping(z_mean, steps.target_DE)
