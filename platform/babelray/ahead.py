"""An iterator whose next item is made by a thread while the last one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_END = object()


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items, one made ahead; what goes wrong in making one is raised in its place.

    >>> list(ahead(n * n for n in range(4)))
    [0, 1, 4, 9]
    """
    source = iter(items)
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, source, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, source, _END)
            yield item  # type: ignore[misc]
