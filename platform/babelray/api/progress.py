"""What a call is doing: a spinner on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

LINE_EVERY = 10.0
"""Seconds between lines where there is no terminal, such as in a notebook."""


@contextlib.contextmanager
def status(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """A function that shows what is being done; it begins with a text."""
    if console.is_terminal:
        with console.status(text) as spinner:
            yield lambda now: spinner.update(now)
        return
    last = -LINE_EVERY

    def show(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            console.print(text, highlight=False, markup=False, soft_wrap=True)

    show(text)
    yield show


@contextlib.contextmanager
def report_progress(title: str, shown: bool) -> Iterator[Callable[[str], None]]:
    """What receives the progress of a function as sentences; it writes to the standard error stream."""
    from rich.console import Console

    with status(Console(stderr=True, quiet=not shown), title) as show:
        yield lambda message: show(f"{title}: {message}")
