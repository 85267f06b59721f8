"""An iterator that computes its next item in a thread while the current one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_END = object()


def prefetch(items: Iterable[T]) -> Iterator[T]:
    """The same items, each computed one step ahead; an error in computing an item is raised in its place.

    >>> list(prefetch(n * n for n in range(4)))
    [0, 1, 4, 9]
    """
    source = iter(items)
    with ThreadPoolExecutor(max_workers=1) as pool:
        following = pool.submit(next, source, _END)
        while (item := following.result()) is not _END:
            following = pool.submit(next, source, _END)
            yield item  # type: ignore[misc]
