"""The progress of a call: a status line on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

LINE_EVERY = 10.0
"""Seconds between lines where there is no terminal, such as in a notebook."""


@contextlib.contextmanager
def report_progress(title: str, shown: bool) -> Iterator[Callable[[str], None]]:
    """What receives the progress of a method as sentences; it writes to the standard error stream."""
    from rich.console import Console

    console = Console(stderr=True, quiet=not shown)
    last = time.monotonic()

    def print_line(message: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            console.print(f"{title}: {message}", highlight=False, markup=False)

    if not console.is_terminal:
        yield print_line
        return
    with console.status(title) as status:
        yield lambda message: status.update(f"{title}: {message}")
