"""GAN-Real-NVP: density matching without any dictionary, by adversarial training (Zhao and Eger, 2022, section 3.2).

The flows of Real-NVP (see `flow`) learn to map the vectors of one language to where those of the other are. Critics
measure the distance that is left: see `adversarial_flows`.

Shapes: N and M words, D width.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from babelray.mapping.bootstrapping import BootstrapConfig, train_bootstrapped
from babelray.mapping.checkpoint import epoch_progress
from babelray.mapping.epochs import best_epoch, check_trainable, epoch_scorer
from babelray.mapping.method import MAPPING_METHODS, Notify, OnProgress
from babelray.mapping.real_nvp import RealNvpConfig, start_mapping

if TYPE_CHECKING:
    from torch import Tensor

    from babelray.mapping.bootstrapping import ConstraintLoss
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.linear import Dictionary, LinearMapping
    from babelray.mapping.nonlinear import NonlinearMapping


@MAPPING_METHODS.register
class GanRealNvpConfig(RealNvpConfig):
    """The flows of real-nvp without a dictionary, by adversarial training; `bootstrap` lets it learn from the
    translations that it induces (Zhao and Eger, 2022); defaults as published where they are.
    """

    method: Literal["gan-real-nvp"] = "gan-real-nvp"  # type: ignore[assignment]
    batch_size: int = Field(32, ge=1)
    """Words of each language in a step."""
    learning_rate: float = Field(1e-6, gt=0)
    critic_learning_rate: float = Field(1e-4, gt=0)
    critic_steps: int = Field(5, ge=1)
    """Steps of the critics for each of the flows."""
    critic_hidden: int = Field(256, ge=1)
    """Units of each of a critic's two hidden layers."""
    frequent: int = Field(20_000, ge=2)
    """Frequent words that it trains on."""
    bootstrap: BootstrapConfig | None = None
    """Training again on the translations that it induces; null: none."""

    @property
    def uses_dictionary(self) -> bool:
        return self.start == "rotation" or self.select == "validation"

    @property
    def unsupervised(self) -> bool:
        return not self.uses_dictionary

    @property
    def compared_words(self) -> int:
        return max(self.criterion_words, self.bootstrap.words if self.bootstrap else 0)

    def check_dictionary(self, given: bool) -> None:
        if given != self.uses_dictionary:
            raise ValueError(
                "gan-real-nvp needs a dictionary for start: rotation or select: validation, and otherwise none "
                "(dictionary: none); real-nvp learns from one"
            )

    def fit(
        self, source_ND: Tensor, target_MD: Tensor, dictionary: Dictionary | None, seed: int, notify: Notify
    ) -> tuple[Mapping, LinearMapping]:
        on_progress = epoch_progress(self.epochs, notify)

        def train(initial: Mapping | None, constraint: ConstraintLoss | None) -> Mapping:
            return gan_real_nvp(source_ND, target_MD, dictionary, self, seed, on_progress, initial, constraint)[0]

        return train_bootstrapped(source_ND, target_MD, train, self.bootstrap, self.normalise, notify)


def gan_real_nvp(
    source_ND: Tensor,
    target_MD: Tensor,
    dictionary: Dictionary | None,
    config: GanRealNvpConfig,
    seed: int = 1,
    on_progress: OnProgress = lambda epoch, value: None,
    initial: Mapping | None = None,
    constraint: ConstraintLoss | None = None,
) -> tuple[NonlinearMapping, LinearMapping]:
    """Mappings of both sides; `on_progress` receives the criterion of every epoch.

    A dictionary gives the start (`start: rotation`) or the validation pairs (`select: validation`), no more. Training
    continues from the mapping `initial`, if there is one; one that is linear stands for the identity.
    """
    from babelray.mapping.adversarial_flows import AdversarialFlows
    from babelray.mapping.criteria import similarity_for
    from babelray.mapping.linear import LinearMapping
    from babelray.mapping.nonlinear import NonlinearMapping

    x_ND, y_MD = source_ND[: config.frequent], target_MD[: config.frequent]
    check_trainable(x_ND, y_MD, min(len(x_ND), len(y_MD)), "words")
    mapping, x_ND, y_MD = start_mapping(source_ND, target_MD, dictionary, config, seed)
    if isinstance(initial, NonlinearMapping):
        mapping = replace(mapping, network=copy.deepcopy(initial.network))
    flows: Any = mapping.network
    training = AdversarialFlows(flows, config, seed)
    best_epoch(
        flows,
        config.epochs,
        lambda: training.epoch(x_ND[: config.frequent], y_MD[: config.frequent], constraint),
        epoch_scorer(flows, x_ND, y_MD, config, similarity_for(config.normalise), dictionary),
        on_progress,
    )
    return mapping, LinearMapping.identity(target_MD, config.normalise)
