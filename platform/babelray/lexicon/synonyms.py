"""Names of concepts, such as UMLS': a line a name, `C0027996||Vitamin B`; and the synonyms that they make.

All names of a concept mean the same, within a language and across languages (Liu et al., 2021): each is a pair with
each other one, so that no name is ever taken for a wrong one of its own concept.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from babelray.errors import DataError

if TYPE_CHECKING:
    from babelray.storage import Place

LINE = (
    "A line is `C0027996||Vitamin B`: a concept, or several joined by `|`, and a text; or with a tab between the two."
)
MOST = 8
"""So many names of a concept are paired, in each language: the first ones."""


def read_names(place: Place) -> Iterator[tuple[list[str], str]]:
    """The concepts and the text of each line, in one normal form; empty lines are passed over."""
    content = unicodedata.normalize("NFC", place.read_text().removeprefix("\ufeff").replace("\0", " "))
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in re.split(r"\|\||\t", line)]
        concepts = [concept for concept in re.split(r"[|+\s]+", cells[0]) if concept]
        if len(cells) != 2 or not concepts or not cells[1]:
            raise DataError(f"{place}, line {number}: not a concept and a text", LINE)
        yield concepts, cells[1]


def names_by_concept(place: Place) -> dict[str, list[str]]:
    """The names of each concept in a file, each once."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for concepts, name in read_names(place):
        for concept in concepts:
            found[concept][name] = None
    return {concept: list(names) for concept, names in found.items()}


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
        for name in islice(names, MOST)
        for other in islice(hub.get(concept, ()), MOST)
        if name != other
    )
    return list(dict.fromkeys(pairs))
