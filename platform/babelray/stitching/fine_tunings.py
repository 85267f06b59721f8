"""The fine-tunings in the hub that several systems need together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babelray.stitching.method import Start, StitchingMethod

Use = tuple[str, str]
"""A system and a target language."""


@dataclass(frozen=True)
class FineTuning:
    """One fine-tuning: its start, the target language that the start depends on if any, and what it is used for."""

    start: Start
    code: str | None
    uses: tuple[Use, ...]

    @property
    def name(self) -> str:
        return f"{self.uses[0][0]}, {self.code or 'all languages'}"


def plan_fine_tunings(systems: Mapping[str, StitchingMethod], languages: Sequence[str]) -> list[FineTuning]:
    """All fine-tunings of a seed; systems with the same start share one."""
    groups: dict[tuple[Start, str | None], list[Use]] = {}
    for name, system in systems.items():
        if (start := system.start()) is not None:
            for code in languages:
                groups.setdefault((start, code if start.source else None), []).append((name, code))
    return [FineTuning(start, code, tuple(uses)) for (start, code), uses in groups.items()]
