"""The outcome of a simulation in tables, beside the results of Zhao and Eger (section 4.3).

± is the standard deviation over worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from babelray.simulation.outcome import Cell, Outcome


class Claim(NamedTuple):
    """A result of the paper: in worlds of a kind, one method does better than another."""

    better: str
    worse: str
    isomorphic: bool = False
    far: bool = False


CLAIMS = (
    Claim("rotation", "real-nvp", isomorphic=True),
    Claim("rotation", "fcnn", isomorphic=True),
    Claim("muse", "gan-real-nvp", isomorphic=True),
    Claim("real-nvp", "rotation"),
    Claim("real-nvp", "fcnn"),
    Claim("gan-real-nvp", "muse"),
    Claim("real-nvp", "gan-real-nvp"),
    Claim("gan-real-nvp-cross-correlation", "gan-real-nvp"),
    Claim("gan-real-nvp-cross-correlation", "muse"),
    Claim("gan-real-nvp-cross-correlation", "gan-real-nvp-graph"),
    Claim("gan-real-nvp-cross-correlation", "gan-real-nvp-procrustes"),
    Claim("muse-cross-correlation", "muse"),
    Claim("rotation", "real-nvp", far=True),
    Claim("muse", "gan-real-nvp", far=True),
)


def verdict(gains: Sequence[float]) -> str:
    """Whether the mean of the runs' differences is above zero, by more than twice its standard error."""
    clear = len(gains) == 1 or abs(fmean(gains)) > 2 * stdev(gains) / len(gains) ** 0.5
    return "undecided" if not clear else "yes" if fmean(gains) > 0 else "no"


def claims(outcome: Outcome) -> list[list[str]]:
    """A header and a line for each order of methods that the paper reports: is it confirmed, and in how many runs."""
    lines = [["world", "better in the paper", "P@1 %", "worse", "P@1 %", "in our runs"]]
    most, near = outcome.near()
    far = outcome.values("epsilon")[-1]
    for better, worse, isomorphic, distant in CLAIMS:
        for t in (t for t in outcome.values("t") if (t == 1) == isomorphic and (far > near or not distant)):
            cells = [Cell(method, t, most, far if distant else near) for method in (better, worse)]
            if not all(cell in outcome.p1 for cell in cells):
                continue
            a, b = (outcome.p1[cell] for cell in cells)
            wins = sum(x > y for x, y in zip(a, b, strict=True))
            holds = verdict([x - y for x, y in zip(a, b, strict=True)])
            where = f"t = {t}, ε = {cells[0].epsilon:g}"
            lines.append([where, better, format_percent(a), worse, format_percent(b), f"{holds} ({wins} of {len(a)})"])
    return lines


def precisions(outcome: Outcome) -> list[list[str]]:
    """A header and a line for each method: P@1 with the most occurrences, near to the training text and far from it."""
    kinds = list(dict.fromkeys((cell.t, cell.epsilon) for cell in outcome.main()))
    lines = [["", *(f"t = {t}, ε = {epsilon:g}" for t, epsilon in kinds)]]
    for method in outcome.values("method"):
        cells = [outcome.p1.get(Cell(method, t, outcome.near()[0], epsilon)) for t, epsilon in kinds]
        lines.append([method, *(format_percent(p1) if p1 else "–" for p1 in cells)])
    return lines


def correlation_table(outcome: Outcome) -> list[list[str]]:
    """A header and a line for each method: the correlation of precision with frequency and with distance."""
    kinds = [(name, t) for name in ("occurrences", "epsilon") for t in outcome.values("t")]
    symbols = {"occurrences": "k", "epsilon": "ε"}
    lines = [["", *(f"{symbols[name]}, t = {t}" for name, t in kinds)]]
    for method in outcome.values("method"):
        cells = [outcome.correlations(name, method, t) for name, t in kinds]
        lines.append([method, *(_format_signed(values) for values in cells)])
    return lines


def _format_signed(values: Sequence[float]) -> str:
    if not values:
        return "–"
    text = f"{fmean(values):+.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
    return text.replace("-", "−")


def format_percent(values: Sequence[float]) -> str:
    """Mean and standard deviation over worlds, in per cent.

    >>> format_percent([0.1, 0.12]), format_percent([0.1])
    ('11.0 ± 1.4', '10.0')
    """
    return f"{100 * fmean(values):.1f}" + (f" ± {100 * stdev(values):.1f}" if len(values) > 1 else "")


def tables(outcome: Outcome) -> dict[str, list[list[str]]]:
    """All tables, by title; the first line of each is its header."""
    most, near = outcome.near()
    return {
        f"P@1 in per cent, {most} occurrences of each word": precisions(outcome),
        f"Correlation of P@1 with k (ε = {near:g}) and with ε (k = {most})": correlation_table(outcome),
        "Results of the paper, and whether they are confirmed": claims(outcome),
    }
