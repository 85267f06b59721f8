"""How an encoder is trained: the mixture of objectives, the optimizer, the workers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from babelray.config import Config
from babelray.objectives.contrastive import ContrastiveConfig
from babelray.objectives.mlm import MlmConfig
from babelray.objectives.static_dcca import StaticDccaConfig
from babelray.objectives.static_mse import StaticMseConfig
from babelray.objectives.tlm import TlmConfig
from babelray.objectives.transport import TransportConfig

AnyObjective = Annotated[
    ContrastiveConfig | MlmConfig | StaticDccaConfig | StaticMseConfig | TlmConfig | TransportConfig,
    Field(discriminator="kind"),
]


class TrainingConfig(Config):
    """A training run on Ray Train and DeepSpeed. Batch sizes are per worker and step."""

    objectives: list[AnyObjective] = Field(min_length=1)
    """The losses, summed with their weights."""
    steps: int = Field(7500, ge=1)
    learning_rate: float = Field(5e-5, gt=0)
    warmup: float = Field(0.1, ge=0, le=1)
    """Share of the steps over which the learning rate rises; it then falls linearly to zero."""
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""
    workers: int = Field(2, ge=1)
    zero_stage: Literal[0, 1, 2, 3] = 1
    """DeepSpeed's ZeRO stage: how much of the training state is sharded over the workers."""
    precision: Literal["fp32", "bf16"] = "fp32"
    log_every: int = Field(10, ge=1)
    checkpoint_every: int = Field(500, ge=1)
    """Steps between checkpoints; a run that dies goes on from the last one."""
    max_failures: int = Field(3, ge=0)
    """How often a lost worker is replaced before the run gives up."""

    @field_validator("objectives")
    @classmethod
    def _names_are_unique(cls, objectives: list[AnyObjective]) -> list[AnyObjective]:
        labels = [objective.label for objective in objectives]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two objectives have the same name ({', '.join(labels)}): give each a `name`")
        return objectives
