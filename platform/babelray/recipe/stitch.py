"""How an encoder of one language is stitched to the static vectors of others (Ye et al., 2024)."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from babelray.config import Config
from babelray.evaluation.classification import Classification
from babelray.stitching.method import STITCHING_METHODS, AnyStitchingMethod, StitchingMethod


def _default_systems() -> dict[str, StitchingMethod]:
    return {STITCHING_METHODS.default: STITCHING_METHODS.parse(STITCHING_METHODS.default)}


class StitchConfig(Config):
    """The benchmark that stitched encoders are scored on, and the systems that are compared."""

    benchmark: Classification
    """What is learned in the hub and tested in all other languages; `seeds` and `fine_tuning` are its own keys."""
    systems: dict[str, AnyStitchingMethod] = Field(default_factory=_default_systems, min_length=1)
    """The systems by name, in the order of the table."""
    save: str | None = None
    """The system whose stitched encoders are saved, with the first seed; the first that stitches by default."""
    words: int = Field(100_000, ge=2)
    """The number of each language's static vectors that are used, those of the most frequent words."""

    @field_validator("systems")
    @classmethod
    def _names_can_be_folders(cls, systems: dict[str, StitchingMethod]) -> dict[str, StitchingMethod]:
        for name in systems:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise ValueError(f"the system {name!r} needs a name of letters, digits, dots and hyphens")
        return systems

    @model_validator(mode="after")
    def _saved_system_stitches(self) -> StitchConfig:
        if self.save is not None and (self.save not in self.systems or not self.systems[self.save].swaps):
            raise ValueError(f"save: {self.save!r} is not a system that stitches")
        return self

    @property
    def saved(self) -> str | None:
        """The system whose encoders are saved; None if no system stitches."""
        return self.save or next((name for name, system in self.systems.items() if system.swaps), None)

    @property
    def baseline(self) -> str | None:
        """The system that all others are compared with, if there is one."""
        baselines = [name for name, system in self.systems.items() if system.baseline]
        return baselines[0] if baselines and len(self.systems) > 1 else None
