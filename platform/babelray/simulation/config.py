"""What is simulated: which worlds, and which methods have to find their way in them."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from babelray.config import Config
from babelray.mapping.config import MappingConfig
from babelray.mapping.methods import Normalise
from babelray.run import NAME, Run


class SimulatedMethod(MappingConfig):
    """A way of mapping. Methods that can do without a dictionary get none; others get all pairs of the training text.

    Epochs are those with the most occurrences of the simulation. With fewer there are more of them: as many steps.
    """

    normalise: Normalise = "none"
    """In the plane lengths count."""
    t: list[int] | None = Field(None, min_length=1)
    """Where this method is tried; null: in all worlds of the simulation."""
    occurrences: list[int] | None = Field(None, min_length=1)
    """The same for the number of occurrences."""


class SimulateConfig(Config):
    """Worlds of two languages in the plane, see `simulation/density.py`; every method is fitted in each of them."""

    words: int = Field(20, ge=2)
    occurrences: list[int] = Field([5, 20, 100], min_length=1)
    """k: how often each word occurs in the training text."""
    t: list[int] = Field([1, 5], min_length=1)
    """Degrees of non-isomorphism: 1 is a rotation."""
    epsilon: list[float] = Field([round(0.2 * i, 1) for i in range(26)], min_length=1)
    """How far the text that is translated is from the training text."""
    runs: int = Field(10, ge=1)
    """Worlds of each kind, for means and spreads."""
    tested: int = Field(20, ge=1)
    """Occurrences of each word that are translated: the same number for every k, so that the task is the same."""
    turn: float = Field(10.0, ge=0, le=180)
    """The largest angle between the languages, in degrees."""
    methods: dict[str, SimulatedMethod] = Field(min_length=1)

    @model_validator(mode="after")
    def _can_be_done(self) -> SimulateConfig:
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

    simulate: SimulateConfig
