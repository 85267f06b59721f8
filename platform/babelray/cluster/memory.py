"""Errors of memory, of Python, numpy, torch, CUDA and Ray, as one message with a remedy."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from babelray.errors import ClusterError

REMEDY = (
    "Use a smaller batch (batch_size, batch_tokens), or `accumulate`, which computes a step in parts; "
    "or fewer workers per machine."
)
_SIGNS = re.compile(
    r"out of memory|OutOfMemory|can't allocate memory|not enough memory|unable to allocate|low on memory", re.IGNORECASE
)
_SIZE = re.compile(r"allocate (?:an array of size )?([\d.,]+)\s*(bytes|[KMGTP]i?B)", re.IGNORECASE)
_UNITS = {unit: 1024**power for power, unit in enumerate("KMGTP", start=1)}


def explain_memory(error: BaseException) -> ClusterError | None:
    """The error for the user, if one is about memory; None if not.

    >>> str(explain_memory(RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB."))).splitlines()[0]
    'out of memory: 21.5 GB more were asked for'
    >>> explain_memory(RuntimeError("size mismatch")) is None
    True
    """
    text = str(error)
    if not isinstance(error, MemoryError) and not _SIGNS.search(text):
        return None
    match = _SIZE.search(text)
    asked = f": {_bytes(*match.groups()) / 1e9:,.1f} GB more were asked for" if match else ""
    return ClusterError(f"out of memory{asked}", REMEDY)


@contextlib.contextmanager
def memory_explained() -> Iterator[None]:
    """Raise errors of memory as those for the user."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if explained := explain_memory(error):
            raise explained from None
        raise


def _bytes(number: str, unit: str) -> float:
    return float(number.replace(",", "")) * _UNITS.get(unit[0].upper() if unit.lower() != "bytes" else "", 1)
