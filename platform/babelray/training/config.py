"""Configs of training: the mixture of objectives, the optimizer, validation, the workers."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from babelray.config import Config, operational, unique_labels
from babelray.objectives.objective import AnyObjective


class ValidationConfig(Config):
    """Validation during training, on a held-out part of the training data."""

    every: int = Field(500, ge=1)
    """Steps between two validations; a checkpoint follows each."""
    held_out: float = Field(0.02, gt=0, lt=0.5)
    """Share of the sentences and sentence pairs that are held out from training. A sentence of the hub is held out with
    all its translations."""
    sentences: int = Field(200, ge=2)
    """Maximum number of held-out sentences, and of sentence pairs, per language."""
    words: int = Field(1000, ge=10)
    """For the semantic criterion: the number of each language's most frequent words that are translated …"""
    pairs: int = Field(300, ge=1)
    """… and the number of mutual translations, the most confident ones, that are scored."""
    layer: int = -1
    """Layer whose mean-pooled vectors represent a sentence or a word."""
    best: Literal["mlm", "semantic", "retrieval"] = "retrieval"
    """The metric that decides which checkpoint becomes the result."""
    patience: int | None = Field(None, ge=1)
    """Training ends early after this number of validations without an improvement."""


class OptimizationConfig(Config):
    """The optimizer, its schedule, and the resources of a training run."""

    steps: int = Field(7500, ge=1)
    learning_rate: float = Field(5e-5, gt=0)
    warmup: float = Field(0.1, ge=0, le=1)
    """Share of the steps over which the learning rate rises …"""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """… and how it then falls to zero, or `constant`."""
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0)
    """Maximum norm of the gradient."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """bf16 and fp16 keep the weights in float32 as well; fp16 needs GPUs."""
    workers: int | None = operational(None, ge=1)
    """Worker processes, each with a GPU where there are any. By default one per GPU, as many as can share the batches
    equally; two on a cluster without GPUs."""
    accumulate: int = operational(1, ge=1)
    """Number of parts in which a worker computes its share of a step, one after the other; more need less memory."""
    zero_stage: Literal[0, 1, 2, 3] = operational(1)
    """DeepSpeed's ZeRO stage: how much of the training state is sharded over the workers."""
    offload: Literal["none", "optimizer", "all"] = operational("none")
    """What is kept in main memory instead of the GPU's: the optimizer's state, or (ZeRO 3) the weights too."""
    activation_checkpointing: bool = operational(False)
    """Recompute activations in the backward pass instead of storing them."""
    compile: bool = operational(False)
    """Compile the encoder with torch.compile."""

    def for_examples(self, count: int) -> Self:
        """The config for training on a number of examples."""
        return self

    @model_validator(mode="after")
    def _check_deepspeed_options(self) -> Self:
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
    """Seed of sampling and dropout; the recipe's seed by default."""
    weights: Literal["float32", "float16", "bfloat16"] = "float32"
    """Number format of the saved encoder. float16 and bfloat16 take half the space and load as float32."""
    validation: ValidationConfig | None = None
    """Validation during training; then the best checkpoint is the result, otherwise the last."""
    log_every: int = operational(10, ge=1)
    """Steps between two logs of losses and speed."""
    checkpoint_every: int = operational(500, ge=1)
    """Steps between checkpoints; an interrupted run resumes from the last one."""
    keep_checkpoints: int = operational(2, ge=1)
    """Number of checkpoints kept during training: the last ones, or with `validation` the best ones and the last."""
    max_failures: int = operational(3, ge=0)
    """Number of lost workers that are replaced before the run fails."""

    @field_validator("objectives")
    @classmethod
    def _check_names(cls, objectives: list[AnyObjective]) -> list[AnyObjective]:
        unique_labels(objectives, "objectives")
        return objectives

    @model_validator(mode="after")
    def _check_batch_sizes(self) -> Self:
        workers = self.workers or 1
        for objective in self.objectives:
            if objective.batch_size % (workers * self.accumulate):
                raise ValueError(
                    f"the batch_size of {objective.label} ({objective.batch_size}) is not a multiple of workers x "
                    f"accumulate ({workers} x {self.accumulate})"
                )
        return self

    def shared_by(self, workers: int) -> bool:
        """Whether a number of workers can share every batch equally."""
        return all(objective.batch_size % (workers * self.accumulate) == 0 for objective in self.objectives)


class FineTuningConfig(OptimizationConfig):
    """How an encoder with a head is trained on labelled examples, in one process. The defaults are XTREME's (Hu et al.,
    2020); a small encoder needs a learning rate of 5e-4 or more, and more epochs.
    """

    steps: int = Field(0, ge=0)
    """Number of steps; 0: those of `epochs`."""
    epochs: int = Field(3, ge=1)
    """Number of passes over the examples."""
    batch_size: int = Field(32, ge=1)
    """Examples per step, over all accumulated parts."""
    learning_rate: float = Field(2e-5, gt=0)
    workers: Literal[1] = operational(1)
    zero_stage: Literal[0, 1, 2] = operational(1)
    """DeepSpeed's ZeRO stage. One worker shards nothing, but bf16, fp16 and offload need 1 or 2."""
    offload: Literal["none", "optimizer"] = operational("none")
    """What is kept in main memory instead of the GPU's: nothing, or the optimizer's state."""

    @model_validator(mode="after")
    def _check_batch_size(self) -> Self:
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size ({self.batch_size}) is not a multiple of accumulate ({self.accumulate})")
        return self

    def for_examples(self, count: int) -> Self:
        """The config with the number of steps that its epochs over a number of examples have.

        >>> FineTuningConfig(epochs=3, batch_size=32).for_examples(100).steps
        10
        """
        return self.model_copy(update={"steps": self.steps or -(-self.epochs * count // self.batch_size)})


def learning_rate(config: OptimizationConfig, step: int) -> float:
    """The learning rate of a step, counted from 0.

    >>> config = TrainingConfig(objectives=["mlm"], steps=100, learning_rate=1.0, warmup=0.1)
    >>> [round(learning_rate(config, step), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.011]
    """
    import math

    warmup = round(config.warmup * config.steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    completed = (step - warmup) / max(1, config.steps - warmup)
    factors = {"linear": 1 - completed, "cosine": (1 + math.cos(math.pi * completed)) / 2, "constant": 1.0}
    return config.learning_rate * factors[config.schedule]
