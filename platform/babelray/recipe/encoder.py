"""The encoder that a run starts from."""

from __future__ import annotations

from pydantic import model_validator

from babelray.config import Config
from babelray.encoder.scratch import ArchitectureConfig
from babelray.training.config import TrainingConfig


class ScratchConfig(ArchitectureConfig):
    """A small encoder and its tokenizer, trained from scratch on the run's own corpus."""

    static: TrainingConfig | None = None
    """A training of the embeddings alone, which comes first. The vector of a text is then the mean over its subwords,
    which learns from many times as many texts in the same time; the layers are added to its result."""
    training: TrainingConfig

    @model_validator(mode="after")
    def _check_static(self) -> ScratchConfig:
        if self.static is not None and self.architecture != "roberta-prelayernorm":
            raise ValueError("`static` needs the architecture roberta-prelayernorm, whose layers can change nothing")
        if len({training.validation and training.validation.held_out for training in self.trainings}) > 1:
            raise ValueError("`static` and `training` must hold out the same share of the data (`validation.held_out`)")
        return self

    @property
    def trainings(self) -> list[TrainingConfig]:
        """In their order."""
        return [self.training] if self.static is None else [self.static, self.training]


class EncoderConfig(Config):
    """An existing encoder (`path`), or a new one (`scratch`)."""

    path: str | None = None
    """A Hugging Face name, a folder written by `save_pretrained`, `models:/NAME@ALIAS` of MLflow's registry, or
    `babelray-mini`, which is part of Babelray."""
    scratch: ScratchConfig | None = None

    @model_validator(mode="after")
    def _check_origin(self) -> EncoderConfig:
        if (self.path is None) == (self.scratch is None):
            raise ValueError("give either `path` or `scratch`")
        return self
