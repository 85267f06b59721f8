"""What was read, kept and dropped, by reason, with an example of each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

DROPPED = "dropped: "
NO_LOSS = ("duplicate", "over the limit", "held out")
"""Reasons that say nothing against the text or the way in which it is read."""
LOUD = 0.05
"""A larger share of dropped lines and sentences is pointed out."""
EXAMPLE_LENGTH = 60
MAX_LANGUAGES = 5
"""Languages whose losses are described in full."""


class Tally(Counter[str]):
    """Counts by name."""

    def __init__(self) -> None:
        super().__init__()
        self.examples: dict[str, str] = {}
        """By the name of a count of dropped lines or sentences, the first of them."""

    def drop(self, reason: str, example: str, count: int = 1) -> None:
        """Count lines or sentences as dropped."""
        self[DROPPED + reason] += count
        if count and example:
            self.examples.setdefault(DROPPED + reason, shorten(example))


def shorten(text: str) -> str:
    r"""The beginning of a text, without line breaks.

    >>> shorten("a  b\n"), len(shorten("x" * 100))
    ('a b', 61)
    """
    text = " ".join(text[: 4 * EXAMPLE_LENGTH].split()).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= EXAMPLE_LENGTH else f"{text[:EXAMPLE_LENGTH]}…"


def losses(counts: Mapping[str, int]) -> dict[str, float]:
    """The share of lines and sentences that was dropped, by the name of the count, the largest first.

    >>> losses({"read": 10, "kept": 5, "dropped: not JSON": 1, "dropped: short paragraph": 2, "dropped: duplicate": 2})
    {'dropped: short paragraph': 0.2, 'dropped: not JSON': 0.1}
    """
    lost = {
        name: count / counts["read"]
        for name, count in counts.items()
        if name.startswith(DROPPED) and name.removeprefix(DROPPED) not in NO_LOSS and count
    }
    return dict(sorted(lost.items(), key=lambda item: -item[1]))


def loss_remarks(counts: Mapping[str, Mapping[str, int]], examples: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A sentence for each of the languages that lost most, if that is much, with examples; and one for the others."""
    shares = {code: losses(own) for code, own in counts.items()}
    total = {code: sum(own.values()) for code, own in shares.items() if sum(own.values()) > LOUD}
    order = sorted(total, key=lambda code: -total[code])
    remarks = []
    for code in order[:MAX_LANGUAGES]:
        reasons = [
            f"{share:.0%} {name.removeprefix(DROPPED)}"
            + (f" (such as {examples[code][name]!r})" if name in examples.get(code, {}) else "")
            for name, share in shares[code].items()
            if share >= 0.005
        ]
        remarks.append(f"{code}: {total[code]:.0%} of {counts[code]['read']:,} dropped: {', '.join(reasons)}")
    if more := [f"{code} {total[code]:.0%}" for code in order[MAX_LANGUAGES:]]:
        remarks.append(f"more than {LOUD:.0%} dropped too: {', '.join(more)}")
    return remarks
