"""How an encoder is trained: the mixture of objectives, the optimizer, the workers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from babelray.config import Config, operational
from babelray.objectives.contrastive import ContrastiveConfig
from babelray.objectives.distillation import DistillationConfig
from babelray.objectives.mlm import MlmConfig
from babelray.objectives.static_dcca import StaticDccaConfig
from babelray.objectives.static_mse import StaticMseConfig
from babelray.objectives.tlm import TlmConfig
from babelray.objectives.transport import TransportConfig
from babelray.objectives.word_l2 import WordL2Config

AnyObjective = Annotated[
    ContrastiveConfig
    | DistillationConfig
    | MlmConfig
    | StaticDccaConfig
    | StaticMseConfig
    | TlmConfig
    | TransportConfig
    | WordL2Config,
    Field(discriminator="kind"),
]


class ValidationConfig(Config):
    """Measuring while training, on a part of the training data that is kept from it."""

    every: int = Field(500, ge=1)
    """Steps between two measurements; each is followed by a checkpoint."""
    held_out: float = Field(0.02, gt=0, lt=0.5)
    """Share of the sentences and sentence pairs that training does not see. A sentence of the hub is held out with all
    its translations."""
    sentences: int = Field(200, ge=2)
    """At most so many of a language are measured with."""
    words: int = Field(1000, ge=10)
    """For the semantic criterion: so many of each language's most frequent words are translated …"""
    pairs: int = Field(300, ge=1)
    """… and so many of the translations that both directions agree on, the most confident, are judged."""
    layer: int = -1
    """Layer whose mean-pooled vectors stand for a sentence or a word."""
    best: Literal["mlm", "semantic", "retrieval"] = "retrieval"
    """What decides which checkpoint becomes the result."""
    patience: int | None = Field(None, ge=1)
    """Training ends early after so many measurements without a better one."""


class OptimizationConfig(Config):
    """How weights are changed, and what computes it: shared by all that trains."""

    steps: int = Field(7500, ge=1)
    learning_rate: float = Field(5e-5, gt=0)
    warmup: float = Field(0.1, ge=0, le=1)
    """Share of the steps over which the learning rate rises …"""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """… and how it then falls to zero, or that it does not."""
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0)
    """Largest norm of the gradient."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """bf16 and fp16 keep the weights in float32 as well; fp16 needs GPUs."""
    workers: int = operational(2, ge=1)
    accumulate: int = operational(1, ge=1)
    """In how many parts a worker takes its share of a step, one after the other: more need less memory."""
    zero_stage: Literal[0, 1, 2, 3] = operational(1)
    """DeepSpeed's ZeRO stage: how much of the training state is sharded over the workers."""
    offload: Literal["none", "optimizer", "all"] = operational("none")
    """What lies in main memory instead of the GPU's: the optimizer's state, or (ZeRO 3) the weights too."""
    activation_checkpointing: bool = operational(False)
    """Compute activations again in the backward pass instead of keeping them."""
    compile: bool = operational(False)
    """Compile the encoder with torch.compile."""

    @model_validator(mode="after")
    def _deepspeed_can_do_it(self) -> Self:
        if self.precision != "fp32" and self.zero_stage == 0:
            raise ValueError(f"{self.precision} needs zero_stage 1, 2 or 3, which shard the float32 weights")
        if self.offload == "optimizer" and self.zero_stage == 0:
            raise ValueError("offload: optimizer needs zero_stage 1, 2 or 3")
        if self.offload == "all" and self.zero_stage != 3:
            raise ValueError("offload: all needs zero_stage 3")
        return self


class TrainingConfig(OptimizationConfig):
    """A training run on Ray Train and DeepSpeed. Batch sizes are per step, over all workers and accumulated parts."""

    objectives: list[AnyObjective] = Field(min_length=1)
    """The losses, summed with their weights."""
    seed: int | None = Field(None, ge=0)
    """What is drawn and dropped out; the recipe's seed by default."""
    weights: Literal["float32", "float16", "bfloat16"] = "float32"
    """How the result is written down; half of the size, and read as float32 again."""
    validation: ValidationConfig | None = None
    """Measuring on held-out data while training; then the best checkpoint is the result, otherwise the last."""
    log_every: int = operational(10, ge=1)
    checkpoint_every: int = operational(500, ge=1)
    """Steps between checkpoints; a run that dies goes on from the last one."""
    keep: int = operational(2, ge=1)
    """So many checkpoints are kept while training: the last ones, or with `validation` the best ones and the last."""
    max_failures: int = operational(3, ge=0)
    """How often a lost worker is replaced before the run gives up."""

    @field_validator("objectives")
    @classmethod
    def _names_are_unique(cls, objectives: list[AnyObjective]) -> list[AnyObjective]:
        labels = [objective.label for objective in objectives]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two objectives have the same name ({', '.join(labels)}): give each a `name`")
        return objectives

    @model_validator(mode="after")
    def _batches_can_be_shared_out(self) -> Self:
        parts = self.workers * self.accumulate
        for objective in self.objectives:
            if objective.batch_size % parts:
                raise ValueError(
                    f"the batch_size of {objective.label} ({objective.batch_size}) is not a multiple of workers x "
                    f"accumulate ({self.workers} x {self.accumulate})"
                )
        return self


class FineTuningConfig(OptimizationConfig):
    """How an encoder with a head is trained on labelled examples, in one process. The defaults are XTREME's (Hu et al.,
    2020); a small encoder wants a learning rate of 5e-4 or more, and more epochs.
    """

    steps: int = Field(0, ge=0)
    """So many, whatever `epochs` says; 0: as many as the epochs have."""
    epochs: int = Field(3, ge=1)
    """How often each example is seen."""
    batch_size: int = Field(32, ge=1)
    """Examples a step, over all accumulated parts."""
    learning_rate: float = Field(2e-5, gt=0)
    workers: Literal[1] = operational(1)
    zero_stage: Literal[0, 1, 2] = operational(1)
    """DeepSpeed's ZeRO stage; a single worker shards nothing, but bf16, fp16 and offload need 1 or 2."""
    offload: Literal["none", "optimizer"] = operational("none")
    """What lies in main memory instead of the GPU's: nothing, or the optimizer's state."""

    @model_validator(mode="after")
    def _batches_can_be_parted(self) -> Self:
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size ({self.batch_size}) is not a multiple of accumulate ({self.accumulate})")
        return self

    def for_examples(self, count: int) -> Self:
        """With the steps that the epochs of so many examples take.

        >>> FineTuningConfig(epochs=3, batch_size=32).for_examples(100).steps
        10
        """
        return self.model_copy(update={"steps": self.steps or -(-self.epochs * count // self.batch_size)})


def learning_rate(config: OptimizationConfig, step: int) -> float:
    """The learning rate of a step, counted from 0.

    >>> made = TrainingConfig(objectives=[{"kind": "mlm"}], steps=100, learning_rate=1.0, warmup=0.1)
    >>> [round(learning_rate(made, step), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.011]
    """
    import math

    warmup = round(config.warmup * config.steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, config.steps - warmup)
    falling = {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}
    return config.learning_rate * falling[config.schedule]
