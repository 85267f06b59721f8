"""Names of concepts, such as those of UMLS, one per line, `C0027996||Vitamin B`; and pairs of synonyms among them.

All names of a concept mean the same, within a language and across languages (Liu et al., 2021): each forms a pair with
each other one, so that no name is ever a negative example for its own concept.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from babelray.errors import DataError
from babelray.storage import AnyPath, Location

LINE = (
    "A line is `C0027996||Vitamin B`: a concept, or several joined by `|`, and a text; or with a tab between the two."
)
MAX_NAMES = 8
"""Names of a concept that are paired, per language: the first ones."""


def read_names(path: AnyPath) -> Iterator[tuple[list[str], str]]:
    """The concepts and the text of each line, in NFC; empty lines are skipped."""
    location = Location.parse(path)
    content = unicodedata.normalize("NFC", location.read_text().removeprefix("\ufeff").replace("\0", " "))
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in re.split(r"\|\||\t", line)]
        concepts = [concept for concept in re.split(r"[|+\s]+", cells[0]) if concept]
        if len(cells) != 2 or not concepts or not cells[1]:
            raise DataError(f"{location}, line {number}: not a concept and a text", LINE)
        yield concepts, cells[1]


def names_by_concept(path: AnyPath) -> dict[str, list[str]]:
    """The names of each concept in a file, each once."""
    by_concept: dict[str, dict[str, None]] = defaultdict(dict)
    for concepts, name in read_names(path):
        for concept in concepts:
            by_concept[concept][name] = None
    return {concept: list(names) for concept, names in by_concept.items()}


def synonym_pairs(own: Mapping[str, Sequence[str]], hub: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Every name of a language with every other name of its concept in the hub, each pair once.

    For the hub's own synonyms give its names twice.

    >>> synonym_pairs({"C1": ["Grippe"], "C2": ["Arm"]}, {"C1": ["flu", "influenza"]})
    [('Grippe', 'flu'), ('Grippe', 'influenza')]
    >>> synonym_pairs({"C1": ["flu", "influenza"]}, {"C1": ["flu", "influenza"]})
    [('flu', 'influenza'), ('influenza', 'flu')]
    """
    pairs = (
        (name, other)
        for concept, names in own.items()
        for name in islice(names, MAX_NAMES)
        for other in islice(hub.get(concept, ()), MAX_NAMES)
        if name != other
    )
    return list(dict.fromkeys(pairs))
