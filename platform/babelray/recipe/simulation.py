"""What is simulated: worlds with a known answer, and the mapping methods that are tried in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from babelray.config import Config
from babelray.mapping.method import MAPPING_METHODS, AnyMappingMethod
from babelray.recipe.run import NAME, Run


class SimulatedMethod(Config):
    """A mapping method. One that works without a dictionary gets none; others get all pairs of the training text."""

    mapping: AnyMappingMethod
    """The mapping method, by its name or with its settings; `normalise` is `none` by default, since in the plane
    lengths count. Epochs are those with the most occurrences of the simulation. With fewer occurrences there are more
    epochs, so that there are as many steps."""
    t: list[int] | None = Field(None, min_length=1)
    """The worlds in which this method is tried; null: all of the simulation."""
    occurrences: list[int] | None = Field(None, min_length=1)
    """The same for the number of occurrences."""

    @field_validator("mapping", mode="before")
    @classmethod
    def _lengths_count(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {MAPPING_METHODS.tag: value}
        return {"normalise": "none", **value} if isinstance(value, Mapping) else value


class SimulateConfig(Config):
    """Worlds of two languages in the plane, see `simulation/density.py`; every method is fitted in each of them."""

    words: int = Field(20, ge=2)
    occurrences: list[int] = Field([5, 20, 100], min_length=1)
    """k: how often each word occurs in the training text."""
    t: list[int] = Field([1, 5], min_length=1)
    """Degrees of non-isomorphism: 1 is a rotation."""
    epsilon: list[float] = Field([round(0.2 * i, 1) for i in range(26)], min_length=1)
    """Distance between the text that is translated and the training text."""
    runs: int = Field(10, ge=1)
    """Worlds of each kind, for means and spreads."""
    tested: int = Field(20, ge=1)
    """Occurrences of each word that are translated: the same number for every k, so that the task is the same."""
    turn: float = Field(10.0, ge=0, le=180)
    """The largest angle between the languages, in degrees."""
    methods: dict[str, SimulatedMethod] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_possible(self) -> SimulateConfig:
        if min(*self.t, *self.occurrences) < 1:
            raise ValueError("t and occurrences are at least 1")
        for name, method in self.methods.items():
            if not re.fullmatch(NAME, name):
                raise ValueError(f"the method {name!r} needs a name of letters, digits, dots and hyphens")
            if not set(method.t or []) <= set(self.t) or not set(method.occurrences or []) <= set(self.occurrences):
                raise ValueError(f"methods.{name}: t and occurrences are among those of the simulation")
        return self


class Simulation(Run):
    """A recipe of `babelray simulate`."""

    kind: ClassVar[str] = "simulation"

    simulate: SimulateConfig
