"""Scores and p-values as text."""

from __future__ import annotations

P_VALUE = "p"
"""The format of a p-value, which is never shown as 0."""


def format_score(value: float, format_spec: str) -> str:
    """A score: with `%` a share in per cent, with `p` a p-value, else by a format specification.

    >>> format_score(0.5, "%"), format_score(1234, ",.0f"), format_score(0.0001, "p")
    ('50.0', '1,234', '< 0.001')
    """
    if format_spec == P_VALUE:
        return format_p(value)
    return f"{100 * value:.1f}" if format_spec == "%" else format(value, format_spec)


def format_p(p: float | None) -> str:
    """A p-value; empty if there is none.

    >>> format_p(0.0123), format_p(0.0001), format_p(None)
    ('0.012', '< 0.001', '')
    """
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_chance(chance: float, kind: str) -> str:
    """The level of chance, which may be too small to show.

    >>> format_chance(0.02, "%"), format_chance(0.00001, "%"), format_chance(0, ".3f")
    ('2.0', '< 0.1', '0.000')
    """
    return "< 0.1" if kind == "%" and 0 < chance < 0.0005 else format_score(chance, kind)
