"""The encoder that a run starts from."""

from __future__ import annotations

from pydantic import model_validator

from babelray.config import Config
from babelray.encoder.scratch import ArchitectureConfig
from babelray.training.config import TrainingConfig


class ScratchConfig(ArchitectureConfig):
    """A small encoder and its tokenizer, trained from scratch on the run's own corpus."""

    training: TrainingConfig


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
