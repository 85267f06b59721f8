"""MUSE: a rotation learned without any dictionary, by adversarial training, then refined (Conneau et al., 2018).

    adversarial     a rotation W against a discriminator (section 2.1)               see `adversarial_rotation`
    criterion       1/n Σ_i cos(x_i W, z_t(i)),  t(i) = argmax_j CSLS(x_i W, z_j)    (section 3.5)

The learning rate decays after each epoch, and is halved where the criterion fell; the best epoch is kept. Then, or
after Procrustes where there is a dictionary, come the refinements (section 2.2): Procrustes on the pairs of frequent
words that are mutually nearest by CSLS, repeatedly; the best by the criterion is kept, the start being one of them.
W starts as the identity and moves in small steps: in a small or noisy space it may never find a rotation far from it.

Written from the paper. We differ from it in this:
- Vectors are normalised and centred first, as in our other methods. Both networks see them with length √D, so that an
  entry is about 1: with length 1 the same criterion took about twice the epochs. W then takes longer steps too; where
  it strays far from a rotation, a larger β (0.1) helps.
- The discriminator takes `discriminator_steps` for each step of W, and W learns from smoothed labels as well.
- An epoch is scored by the rotation nearest to its W, which is also the one that is kept: a W that shrinks some
  directions brings all words nearer to each other, which would raise the criterion.
- Where lengths count (`normalise` is not `unit`), translations are those at a small distance: see `criteria`.
- Translations are searched among the `frequent` words that the discriminator sees, not in the whole vocabulary, and
  a target word's neighbourhood is taken among the source words that the criterion translates: less to multiply.

Shapes: N and M words, D width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from babelray.errors import TrainingError
from babelray.mapping.bootstrapping import BootstrapConfig, train_bootstrapped
from babelray.mapping.checkpoint import Remaining
from babelray.mapping.method import MAPPING_METHODS, MappingMethod, Notify, OnProgress
from babelray.mapping.procrustes import rotation

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from babelray.mapping.bootstrapping import ConstraintLoss
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.linear import Dictionary, LinearMapping
    from babelray.mapping.method import Similarity


@MAPPING_METHODS.register
class MuseConfig(MappingMethod):
    """A rotation from a dictionary, or from adversarial training without one; then refined by the translations that it
    induces (Conneau et al., 2018); defaults as published where they are.
    """

    method: Literal["muse"] = "muse"
    epochs: int = Field(5, ge=1)
    steps: int = Field(31_250, ge=1)
    """Steps of the mapping in an epoch."""
    batch_size: int = Field(32, ge=1)
    """Words of each language in a step."""
    hidden: int = Field(2048, ge=1)
    """Units of each of the discriminator's two hidden layers."""
    input_dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the discriminator's input that is dropped."""
    smoothing: float = Field(0.2, ge=0, lt=0.5)
    """Distance of the discriminator's labels from 0 and 1."""
    discriminator_steps: int = Field(5, ge=1)
    """Steps of the discriminator for each of the mapping."""
    learning_rate: float = Field(0.1, gt=0)
    decay: float = Field(0.95, gt=0, le=1)
    """Factor of the learning rate after an epoch; it is halved too when the criterion falls."""
    orthogonality: float = Field(0.01, ge=0)
    """β: how strongly each step pulls the mapping toward a rotation."""
    frequent: int = Field(50_000, ge=2)
    """Frequent words that the discriminator sees, and among which translations are searched."""
    criterion_words: int = Field(10_000, ge=1)
    """Frequent source words whose translations the criterion uses."""
    csls: int = Field(10, ge=0)
    refinements: int = Field(5, ge=0)
    refine_words: int = Field(15_000, ge=2)
    """Frequent words among which a refinement searches its pairs."""
    bootstrap: BootstrapConfig | None = None
    """Training again on the translations that it induces, in place of the refinements; null: none."""

    @property
    def unsupervised(self) -> bool:
        return True

    @property
    def compared_words(self) -> int:
        return max(self.refine_words, self.bootstrap.words if self.bootstrap else 0)

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[Mapping, LinearMapping]:
        config = self.model_copy(update={"refinements": 0}) if self.bootstrap else self

        remaining, total = Remaining(), (self.epochs if dictionary is None else 0) + config.refinements

        def on_progress(number: int, value: float) -> None:
            eta = remaining.text(number, total - number)
            notify(f"epoch or refinement {number} of {total}, {eta}; criterion {value:.4f}")

        def train(initial: Mapping | None, constraint: ConstraintLoss | None) -> Mapping:
            return muse(source_ND, target_MD, dictionary, config, seed, on_progress, initial, constraint)[0]

        return train_bootstrapped(source_ND, target_MD, train, self.bootstrap, self.normalise, notify)


def criterion(mapped_ND: Tensor, z_MD: Tensor, csls: int, words: int, similarity: Similarity = "cosine") -> float:
    """The mean cosine of the first words and their translations by CSLS."""
    from torch.nn import functional

    from babelray.mapping.criteria import semantic
    from babelray.vectors.retrieval import nearest

    if similarity == "distance":
        return semantic(mapped_ND, z_MD, csls, words, similarity="distance")
    mapped_ND = mapped_ND[:words]
    nearest_N = nearest(mapped_ND, z_MD, csls=csls)[1].flatten()
    return functional.cosine_similarity(mapped_ND, z_MD[nearest_N]).mean().item()


def train_adversarially(
    x_ND: Tensor,
    z_MD: Tensor,
    config: MuseConfig,
    generator: torch.Generator,
    on_progress: OnProgress,
    similarity: Similarity = "cosine",
    start_DD: Tensor | None = None,
    constraint: ConstraintLoss | None = None,
) -> Tensor:
    """The rotation nearest to the W of the best epoch by the criterion."""
    import torch

    from babelray.mapping.adversarial_rotation import discriminator, train_epoch

    width = x_ND.shape[1]
    eye_DD = torch.eye(width)
    w_DD = best_DD = eye_DD if start_DD is None else start_DD
    layers = discriminator(width, config.hidden, generator)
    scale = torch.cat([x_ND, z_MD]).square().mean().sqrt()
    sides = x_ND / scale, z_MD / scale
    rate, previous, best = config.learning_rate, -math.inf, -math.inf
    for epoch in range(1, config.epochs + 1):
        w_DD = train_epoch(sides, w_DD, layers, rate, config, generator, constraint)
        if not w_DD.isfinite().all():
            break
        rotation_DD = rotation(eye_DD, w_DD)
        value = criterion(x_ND @ rotation_DD, z_MD, config.csls, config.criterion_words, similarity)
        on_progress(epoch, value)
        if value > best:
            best_DD, best = rotation_DD, value
        rate *= config.decay if value >= previous else config.decay / 2
        previous = value
    if best == -math.inf:
        raise TrainingError("muse diverged in its first epoch: W is not finite", "Lower `learning_rate`.")
    return best_DD


def refine(
    x_ND: Tensor,
    z_MD: Tensor,
    w_DD: Tensor,
    config: MuseConfig,
    on_progress: OnProgress = lambda number, value: None,
    similarity: Similarity = "cosine",
) -> Tensor:
    """The best W, by the criterion, of the start and the refinements."""
    from babelray.mapping.criteria import comparable
    from babelray.mapping.induction import induce

    best_DD, best = w_DD, criterion(x_ND @ w_DD, z_MD, config.csls, config.criterion_words, similarity)
    x_cut, z_cut = x_ND[: config.refine_words], z_MD[: config.refine_words]
    for number in range(1, config.refinements + 1):
        induced = induce(*comparable(x_cut @ w_DD, z_cut, similarity), csls=config.csls, direction="mutual")
        w_DD = rotation(x_cut[induced.source_P], z_cut[induced.target_P])
        value = criterion(x_ND @ w_DD, z_MD, config.csls, config.criterion_words, similarity)
        on_progress(number, value)
        if value > best:
            best_DD, best = w_DD, value
    return best_DD


def muse(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: MuseConfig,
    seed: int = 1,
    on_progress: OnProgress = lambda number, value: None,
    initial: Mapping | None = None,
    constraint: ConstraintLoss | None = None,
) -> tuple[LinearMapping, LinearMapping]:
    """Mappings of both sides; `on_progress` receives the criterion of every epoch, then of every refinement.

    With an `initial` mapping the adversarial training continues from it, whatever the dictionary.
    """
    import torch

    from babelray.mapping.criteria import similarity_for
    from babelray.mapping.linear import LinearMapping, prepare

    x_ND, mean_D = prepare(source_ND, config.normalise)
    z_MD, _ = prepare(target_MD, config.normalise)
    similarity = similarity_for(config.normalise)
    x_cut, z_cut = x_ND[: config.frequent], z_MD[: config.frequent]
    if dictionary is None or initial is not None:
        epochs, generator = config.epochs, torch.Generator().manual_seed(seed)
        assert initial is None or isinstance(initial, LinearMapping)  # one of this function
        start_DD = None if initial is None else initial.matrix_DE
        w_DD = train_adversarially(x_cut, z_cut, config, generator, on_progress, similarity, start_DD, constraint)
    else:
        epochs, w_DD = 0, rotation(x_ND[dictionary[0]], z_MD[dictionary[1]])
    w_DD = refine(x_cut, z_cut, w_DD, config, lambda number, value: on_progress(epochs + number, value), similarity)
    unit = config.normalise == "unit"
    return LinearMapping(mean_D, w_DD, unit), LinearMapping.identity(target_MD, config.normalise)
