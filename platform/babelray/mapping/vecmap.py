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
kept, map by all steps. We also stop when all cells are kept and bring the same dictionary twice: nothing would change.
Without any dictionary the first one comes from the words' own similarity distributions: two words that translate
each other have, sorted, about the same similarities to all other words of their languages.

Written from the papers. Where hub and language must share a space that other languages share too, re-weight the source
only: the target's mapping is then a rotation, and can be undone.

Shapes: N and M words, P pairs, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from babelray.mapping.checkpoint import Remaining
from babelray.mapping.method import MAPPING_METHODS, MappingMethod, Notify
from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from babelray.mapping.checkpoint import Checkpoint
    from babelray.mapping.linear import Dictionary, LinearMapping

    OnIteration = Callable[[int, float, float], None]
    """Receives the iteration, the share of cells kept and the objective."""

Reweight = Literal["symmetric", "source", "none"]


@MAPPING_METHODS.register
class VecMapConfig(MappingMethod):
    """Both spaces mapped in steps; supervised, or self-learning from a small dictionary, from words spelt alike, or
    from nothing (Artetxe et al., 2018a, 2018b); defaults as published.
    """

    unit_length = True
    resumable = True

    method: Literal["vecmap"] = "vecmap"
    self_learning: bool = True
    """Whether the dictionary is only the start of self-learning; without it the mapping is supervised."""
    reweight: Reweight = "source"
    """Which side gets the correlations as weights; `symmetric`, as published, is for two languages by themselves."""
    dimensions: int | None = Field(None, ge=1)
    """Dimensions to keep, those that correlate most first; null for all."""
    cutoff: int = Field(20_000, ge=2)
    """Frequent words that self-learning uses."""
    start_words: int = Field(4000, ge=2)
    """Frequent words whose similarities make the first dictionary when there is none."""
    csls: int = Field(10, ge=0)
    keep: float = Field(0.1, gt=0, le=1)
    """Share of the similarities that is used in the beginning; it doubles when the objective stalls."""
    threshold: float = Field(1e-6, ge=0)
    """A smaller gain of the objective is none."""
    patience: int = Field(50, ge=1)
    """Iterations without a gain after which it has stalled."""
    max_iterations: int = Field(1000, ge=1)

    @property
    def unsupervised(self) -> bool:
        return self.self_learning

    @property
    def compared_words(self) -> int:
        return self.cutoff

    @classmethod
    def two_file_defaults(cls, has_dictionary: bool) -> dict[str, Any]:
        return {"reweight": "symmetric", "self_learning": not has_dictionary}

    def check_shared_hub(self) -> None:
        super().check_shared_hub()
        if self.reweight == "symmetric" or self.dimensions is not None:
            raise ValueError(
                "vecmap: languages that share the hub's space need reweight: source or none, and all dimensions"
            )

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[LinearMapping, LinearMapping]:
        return vecmap(source_ND, target_MD, dictionary, self, seed, self._progress(notify))

    def fit_resumably(
        self,
        source_ND: Tensor,
        target_MD: Tensor,
        dictionary: Dictionary | None,
        seed: int,
        notify: Notify,
        checkpoint: Checkpoint,
    ) -> tuple[LinearMapping, LinearMapping]:
        return vecmap(source_ND, target_MD, dictionary, self, seed, self._progress(notify), checkpoint)

    def _progress(self, notify: Notify) -> OnIteration:
        """Sentences on the progress of self-learning, with the least number of iterations that are left."""
        remaining = Remaining()

        def on_iteration(iteration: int, keep: float, objective: float) -> None:
            left = min(self.iterations_after(keep), self.max_iterations - iteration)
            eta = remaining.text(iteration, left, at_least=True)
            notify(f"iteration {iteration}, {eta}; {keep:.0%} of the cells, objective {objective:.4f}")

        return on_iteration

    def iterations_after(self, keep: float) -> int:
        """The least number of iterations that follow those with a share of the cells: the share doubles up to 1."""
        doublings = 0
        while keep < 1:
            keep, doublings = min(1.0, 2 * keep), doublings + 1
        return doublings * self.patience


@dataclass(frozen=True)
class Steps:
    """The matrices (D, E) that map each side."""

    source_DE: Tensor
    target_DE: Tensor


def all_steps(x_PD: Tensor, z_PD: Tensor, reweight: Reweight, dimensions: int | None = None) -> Steps:
    """Steps 1 to 5, in double precision."""
    import torch

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
    import torch

    values_D, vectors_DD = torch.linalg.eigh(x_PD.T @ x_PD)
    root_D = values_D.clamp(min=0).sqrt()
    root_D = torch.where(root_D > 1e-6 * root_D.max(), root_D, torch.ones_like(root_D))
    return vectors_DD / root_D @ vectors_DD.T, vectors_DD * root_D @ vectors_DD.T


def similarity_dictionary(x_ND: Tensor, z_MD: Tensor, words: int = 4000, csls: int = 10) -> Dictionary:
    """A first dictionary without any supervision, of the most frequent words (Artetxe et al., 2018b, section 3.2)."""
    from babelray.mapping.induction import induce

    count = min(words, len(x_ND), len(z_MD))
    induced = induce(_profile(x_ND[:count]), _profile(z_MD[:count]), csls)
    return induced.source_P, induced.target_P


def _profile(x_ND: Tensor) -> Tensor:
    """Each word's similarities to all words, sorted and normalised: the rows of √(XXᵀ) = U S Uᵀ, where X = U S Vᵀ."""
    import torch

    from babelray.mapping.linear import unit_centred

    u_ND, s_D, _ = torch.linalg.svd(x_ND, full_matrices=False)
    similar_NN = ((u_ND * s_D) @ u_ND.T).sort(dim=1).values
    return unit_centred(similar_NN)[0]


def self_learn(
    x_ND: Tensor,
    z_MD: Tensor,
    dictionary: Dictionary,
    config: VecMapConfig,
    seed: int,
    on_iteration: OnIteration = lambda iteration, keep, objective: None,
    checkpoint: Checkpoint | None = None,
) -> Dictionary:
    """The dictionary that self-learning ends with. It has converged when all cells bring the same dictionary again."""
    import torch

    from babelray.mapping.induction import Inducer

    generator = torch.Generator().manual_seed(seed)
    x_cut, z_cut = x_ND[: config.cutoff], z_MD[: config.cutoff]
    inducer = Inducer(len(x_cut), len(z_cut), config.csls, x_cut.device)
    keep, best, improved, iteration = config.keep, -1.0, 0, 0
    source_P, target_P = dictionary
    if checkpoint is not None and (state := checkpoint.load()):
        source_P, target_P = state["source"], state["target"]
        keep, best, improved, iteration = state["numbers"][:2].tolist() + state["numbers"][2:].int().tolist()
        generator.set_state(state["generator"])
    while iteration < config.max_iterations:
        iteration += 1
        rotated_ND = x_cut @ rotation(x_ND[source_P], z_MD[target_P])
        induced = inducer(rotated_ND, z_cut, keep, generator)
        same = torch.equal(source_P, induced.source_P) and torch.equal(target_P, induced.target_P)
        source_P, target_P = induced.source_P, induced.target_P
        on_iteration(iteration, keep, induced.objective)
        if same and keep >= 1:
            break
        if induced.objective - best > config.threshold:
            best, improved = induced.objective, iteration
        elif iteration - improved >= config.patience:
            if keep >= 1:
                break
            keep, improved = min(1.0, keep * 2), iteration
        if checkpoint is not None:
            numbers = torch.tensor([keep, best, improved, iteration], dtype=torch.float64)
            state = {"source": source_P, "target": target_P, "numbers": numbers, "generator": generator.get_state()}
            checkpoint.offer(state)
    return source_P, target_P


def vecmap(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: VecMapConfig,
    seed: int = 1,
    on_iteration: OnIteration = lambda iteration, keep, objective: None,
    checkpoint: Checkpoint | None = None,
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides. With a dictionary and no self-learning it is supervised; without one, unsupervised."""
    from babelray.mapping.linear import LinearMapping, unit_centred

    x_ND, x_mean = unit_centred(source_ND)
    z_MD, z_mean = unit_centred(target_MD)
    if dictionary is None:
        dictionary = similarity_dictionary(x_ND, z_MD, config.start_words, config.csls)
    if config.self_learning:
        dictionary = self_learn(x_ND, z_MD, dictionary, config, seed, on_iteration, checkpoint)
    steps = all_steps(x_ND[dictionary[0]], z_MD[dictionary[1]], config.reweight, config.dimensions)
    return LinearMapping(x_mean, steps.source_DE), LinearMapping(z_mean, steps.target_DE)
