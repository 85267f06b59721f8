"""How an encoder of one language is stitched to the static vectors of others (Ye et al., 2024)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from babelray.config import Config
from babelray.evaluation.transfer_tasks import Classification

Policy = Literal["first", "frequent", "mutual"]
Weighting = Literal["standard", "softmax", "sparsemax"]
StitchMethod = Literal["relative", "least-squares", "wechsel", "focus", "logistic-regression", "zero-shot"]

OWN_K: dict[str, int | None] = {"relative": 50, "wechsel": 10, "focus": None}
OWN_TEMPERATURE: dict[str, float] = {"wechsel": 0.1}


class AnchorConfig(Config):
    """Which translation pairs are anchors, of those whose words the encoder and the static vectors have."""

    policy: Policy = "first"
    """Which of a word's translations is taken: the first in the dictionary, the one that is most frequent in the hub,
    or (`mutual`) only pairs whose words are each other's first."""
    skip_frequent: int = Field(0, ge=0)
    """So many of the hub's most frequent words are no anchors: stop words, whose translations are unsteady."""
    min_confidence: float | None = None
    """Least CSLS of a pair once the static vectors of both languages are rotated onto each other; 0 keeps pairs that
    are nearer to each other than to their neighbourhoods. Null: all are kept."""
    count: int | None = Field(None, ge=2)
    """Anchors at most: the most confident if there is a `min_confidence`, else drawn at random; null for all."""


class SystemConfig(Config):
    """One way from the source language to the others; the defaults are the paper's."""

    method: StitchMethod = "relative"
    """`relative`: relative representations. `least-squares`: a linear projection onto the encoder's embeddings.
    `wechsel` (Minixhofer et al., 2022), `focus` (Dobler and de Melo, 2023). `logistic-regression`: on averaged static
    vectors, trained in the target language itself. `zero-shot`: a multilingual encoder as it is."""
    k: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    """Nearest anchors that a word is made of, at most as many as there are; `all`; null: the method's own, 50 for
    `relative`, 10 for `wechsel`."""
    weighting: Weighting = "standard"
    """`relative`: how the nearest anchors are weighted: see `relative.py`. One anchor has all the weight."""
    temperature: float | None = Field(None, gt=0)
    """τ; null: the method's own, 0.1 for `wechsel` and 1 for all others. Standard weights have none."""
    anchors: AnchorConfig = AnchorConfig()
    keep_source: bool = False
    """`relative`: whether the source keeps its own embeddings, and only the target's are mapped."""
    adapt_steps: int = Field(0, ge=0)
    """Steps of masked language modelling on the hub's text that get the body used to its new embeddings, which stay as
    they are, before the task is learned."""
    freeze_embeddings: bool = False
    """Whether the task leaves the source's embeddings as they are, so that those of the target still fit."""
    encoder: str | None = None
    """`zero-shot`: another encoder, a name or a folder; the run's own by default."""

    @field_validator("weighting")
    @classmethod
    def _one_anchor_has_all_the_weight(cls, value: Weighting, info: ValidationInfo) -> Weighting:
        """Systems that do the same are the same: no work is done twice."""
        return "standard" if info.data.get("k") == 1 else value

    @field_validator("temperature")
    @classmethod
    def _standard_weights_have_none(cls, value: float | None, info: ValidationInfo) -> float | None:
        """τ cancels out."""
        relative = info.data.get("method") == "relative"
        return None if relative and info.data.get("weighting") == "standard" else value

    @model_validator(mode="after")
    def _keys_fit_the_method(self) -> SystemConfig:
        if self.encoder is not None and self.method != "zero-shot":
            raise ValueError("encoder: only zero-shot takes another one than the run's")
        if self.keep_source and self.method != "relative":
            raise ValueError(f"keep_source: {self.method} does so anyway")
        return self

    @property
    def nearest(self) -> int | None:
        """How many anchors that is; None for all."""
        if self.k == "all":
            return None
        return OWN_K.get(self.method) if self.k is None else self.k

    @property
    def sharpness(self) -> float:
        return OWN_TEMPERATURE.get(self.method, 1.0) if self.temperature is None else self.temperature

    @property
    def own_source(self) -> bool:
        """Whether the source's embeddings are replaced too, so that every target language needs a fine-tuning."""
        return self.method == "relative" and not self.keep_source

    @property
    def swaps(self) -> bool:
        """Whether there is a stitched encoder in the end."""
        return self.method not in ("logistic-regression", "zero-shot")


class StitchConfig(Config):
    """The task that shows what stitching is worth, and the systems that are compared on it."""

    task: Classification
    """What is learned in the hub and tested in all other languages; `seeds` and `fine_tuning` are its own keys."""
    systems: dict[str, SystemConfig] = Field(default_factory=lambda: {"relative": SystemConfig()}, min_length=1)
    """By name, in the order of the table."""
    save: str | None = None
    """The system whose stitched encoders are kept, with the first seed; the first that has any by default."""
    words: int = Field(100_000, ge=2)
    """So many of a language's static vectors are used, the most frequent words'."""
    ridge: float = Field(1.0, ge=0)
    """`logistic-regression`: how strongly its weights are held near zero."""

    @field_validator("systems")
    @classmethod
    def _names_can_be_folders(cls, systems: dict[str, SystemConfig]) -> dict[str, SystemConfig]:
        for name in systems:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise ValueError(f"the system {name!r} needs a name of letters, digits, dots and hyphens")
        return systems

    @model_validator(mode="after")
    def _one_is_kept(self) -> StitchConfig:
        if self.save is not None and (self.save not in self.systems or not self.systems[self.save].swaps):
            raise ValueError(f"save: {self.save!r} is not a system that stitches")
        return self

    @property
    def kept(self) -> str | None:
        return self.save or next((name for name, system in self.systems.items() if system.swaps), None)
