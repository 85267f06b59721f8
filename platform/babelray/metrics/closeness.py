"""How close translations lie to each other in two dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

Point = Mapping[str, Any]
"""A word: language, concept, word, x and y."""


def closeness(points: Sequence[Point]) -> float:
    """The mean distance of translations, as a share of that of any two words of different languages.

    >>> at = [("en", 0, 0, 0), ("de", 0, 1, 0), ("en", 1, 4, 0), ("de", 1, 5, 0)]
    >>> closeness([dict(zip(("language", "concept", "x", "y"), one)) for one in at])  # 1 and 1 against 1, 5, 3, 1
    0.4
    """
    pairs = [
        (math.dist((a["x"], a["y"]), (b["x"], b["y"])), a["concept"] == b["concept"])
        for i, a in enumerate(points)
        for b in points[:i]
        if a["language"] != b["language"]
    ]
    apart = fmean([distance for distance, _ in pairs]) if pairs else 0.0
    together = [distance for distance, same in pairs if same]
    return fmean(together) / apart if together and apart else float("nan")
