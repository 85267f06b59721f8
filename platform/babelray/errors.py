"""The errors that are written for users.

Each states the problem, its location and a remedy. The command line prints them without a traceback and exits with code
2; any other exception that reaches the user is a defect of Babelray.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

INTERRUPTED = 130
"""The exit code of a command that was stopped by Ctrl-C."""


class BabelrayError(Exception):
    """The base class of all errors that Babelray raises on purpose.

    `problem` states what is wrong and where (file, line, key); `remedy` what to do.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  {self.remedy}" if self.remedy else self.problem


class RecipeError(BabelrayError):
    """A recipe, an override or a command-line value is wrong."""


class DataError(BabelrayError):
    """An input file is missing, unreadable or invalid."""


class StorageError(BabelrayError):
    """A location cannot be reached, read or written."""


class ArtifactError(BabelrayError):
    """An artifact is damaged, incomplete or of the wrong kind."""


class TrainingError(BabelrayError):
    """Training failed: a loss that is not a number, a checkpoint that cannot be loaded."""


class ClusterError(BabelrayError):
    """Ray cannot be reached, or a worker failed permanently."""


class CollectedErrors:
    """Errors that are collected, so that a user sees all of them at once.

    >>> errors = CollectedErrors()
    >>> with errors.attempt():
    ...     raise DataError("a file is missing", "Get it.")
    >>> [error.problem for error in errors]
    ['a file is missing']
    """

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str], BabelrayError] = {}

    def __iter__(self) -> Iterator[BabelrayError]:
        return iter(self._errors.values())

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Collect the error that ends the block, if one does; the same error counts once."""
        try:
            yield
        except BabelrayError as error:
            self._errors.setdefault((error.problem, error.remedy), error)

    def raise_any(self) -> None:
        """Raise the error, or one that lists all of them; nothing if there is none."""
        errors = list(self)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            entries = (f"{number}. {_indented(error)}" for number, error in enumerate(errors, start=1))
            raise RecipeError("\n".join([f"{len(errors)} problems", *entries]))


def _indented(error: BabelrayError) -> str:
    return "\n   ".join(filter(None, (*error.problem.splitlines(), *error.remedy.splitlines())))
