"""How many entries of a dictionary two vocabularies can use, and whether they could use more if it were read otherwise.

A dictionary whose columns are in the other order, or whose words are spelt in another case, still has a few usable
entries: names, and words that both languages share. A mapping fitted or scored on those says nothing about the rest.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from babelray.errors import DataError

Pairs = Sequence[tuple[str, str]]
MISREAD = 2
"""A dictionary that has this many times the usable entries if it is read otherwise is refused."""
HINT = 1.1
"""From this factor on, another way to read it is mentioned."""
FEW = 0.2
"""A smaller share of usable entries is pointed out."""
LEAST_GAIN = 5
"""Entries that reading it otherwise must add: fewer may be chance."""


@dataclass(frozen=True)
class Reading:
    """A way to read a dictionary."""

    lowercase: bool
    exchanged: bool = False
    """Whether the columns are read in the other order."""

    def words(self, pairs: Pairs) -> list[tuple[str, str]]:
        """The entries, each once."""
        cased = ((a.lower(), b.lower()) for a, b in pairs) if self.lowercase else pairs
        return list(dict.fromkeys((b, a) if self.exchanged else (a, b) for a, b in cased))

    def difference(self, other: Reading) -> str:
        """How this reading differs from another, in words."""
        case = "lower-cased" if self.lowercase else "with upper and lower case as written"
        columns = "with the columns exchanged"
        return " and ".join(
            text
            for text, differs in (
                (columns, self.exchanged != other.exchanged),
                (case, self.lowercase != other.lowercase),
            )
            if differs
        )


@dataclass(frozen=True)
class Coverage:
    """Entries of a dictionary, and those whose words two vocabularies have."""

    entries: int
    usable: int
    """Entries with both words."""
    source: int
    """Entries with the first word."""
    target: int
    """Entries with the second word."""
    reading: Reading
    best: Reading
    """The way to read it that has the most usable entries."""
    best_usable: int

    def __str__(self) -> str:
        return (
            f"{self.usable:,} of {self.entries:,} entries usable ({self._share(self.usable)}); the source has "
            f"{self._share(self.source)} of their words, the target {self._share(self.target)}"
        )

    @property
    def warnings(self) -> list[str]:
        """What a user should know before trusting a result."""
        warnings = []
        if self.entries and self.usable < FEW * self.entries:
            warnings.append(f"the result rests on {self._share(self.usable)} of the dictionary")
        if self._gains(HINT):
            warnings.append(self._gain())
        return warnings

    def check(self, name: str) -> None:
        """Raise an error if no entry is usable, or if the dictionary is obviously to be read otherwise."""
        if self.usable and not self._gains(MISREAD):
            return
        problem = f"{name}: {self}" if self.usable else f"{name}: no entry is usable"
        if not self.best_usable or self.best == self.reading:
            shares = f"the source has {self._share(self.source)} of its words, the target {self._share(self.target)}"
            raise DataError(f"{problem}: {shares}", "Check that it is a dictionary of these two languages.")
        raise DataError(f"{problem}; {self._gain()}", self._remedy())

    def check_order(self, name: str) -> None:
        """Raise an error if the columns are obviously in the other order."""
        if self.best.exchanged and self._gains(MISREAD):
            raise DataError(
                f"{name}: {self}; {self._gain()}",
                "Say in the path which language comes first, as {hub}-{lang} or {lang}-{hub}, or exchange the columns.",
            )

    def _gains(self, factor: float) -> bool:
        least = min(LEAST_GAIN, self.entries)
        return self.best_usable > factor * self.usable and self.best_usable - self.usable >= least

    def _gain(self) -> str:
        how = self.best.difference(self.reading)
        return f"{how}: {self._share(self.best_usable)} instead of {self._share(self.usable)}"

    def _remedy(self) -> str:
        remedies = []
        if self.best.exchanged != self.reading.exchanged:
            remedies.append("Exchange the columns of the dictionary, or source and target.")
        if self.best.lowercase != self.reading.lowercase:
            option = "--lowercase" if self.best.lowercase else "--no-lowercase"
            remedies.append(f"Give {option} (in Python lowercase={self.best.lowercase}).")
        return " ".join(remedies)

    def _share(self, count: int) -> str:
        return f"{count / max(1, self.entries):.1%}"


def measure_coverage(pairs: Pairs, source: Container[str], target: Container[str], lowercase: bool = True) -> Coverage:
    """The coverage of a dictionary as it is written, read with or without lower-casing.

    >>> coverage = measure_coverage([("Hund", "dog"), ("Haus", "house")], {"hund", "haus"}, {"dog"})
    >>> str(coverage)
    '1 of 2 entries usable (50.0%); the source has 100.0% of their words, the target 50.0%'
    """
    reading = Reading(lowercase)
    words = reading.words(pairs)
    readings = [reading, Reading(lowercase, True), Reading(not lowercase), Reading(not lowercase, True)]
    usable = {one: sum(a in source and b in target for a, b in one.words(pairs)) for one in readings}
    best = max(readings, key=usable.__getitem__)  # of equal ones the first
    return Coverage(
        entries=len(words),
        usable=usable[reading],
        source=sum(a in source for a, _ in words),
        target=sum(b in target for _, b in words),
        reading=reading,
        best=best,
        best_usable=usable[best],
    )
