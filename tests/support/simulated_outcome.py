"""The outcome of a small simulation."""

from __future__ import annotations

from babelray.simulation.outcome import Cell, Outcome


def outcome() -> Outcome:
    """Two methods in two kinds of world: one rises with k and falls with ε, the other never changes."""
    p1: dict[Cell, list[float]] = {}
    for t in (1, 5):
        for k in (5, 20, 100):
            for epsilon in (0.0, 1.0, 5.0):
                p1[Cell("rotation", t, k, epsilon)] = [1.0, 1.0] if t == 1 else [0.5, 0.5]
                near = 0.5 + k / 1000
                p1[Cell("real-nvp", t, k, epsilon)] = [near - epsilon / 10, near + 0.1 - epsilon / 10]
    cloud = [[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.1], [1.0, 0.9]]
    return Outcome(p1, {Cell(m, 5, 100, 0.0): cloud for m in ("rotation", "real-nvp")})
