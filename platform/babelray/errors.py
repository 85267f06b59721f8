"""The errors that a user is meant to read.

Every one says what was wrong, where, and what to do about it. The command line prints them without a
traceback and exits with code 2; anything else that escapes is a defect of Babelray.
"""

from __future__ import annotations

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has stopped."""


class BabelrayError(Exception):
    """Root of every error that Babelray raises on purpose.

    `problem` says what is wrong and where (file, line, key); `remedy` says what to do.
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
    """An input file is missing, unreadable or not what it should be."""


class StorageError(BabelrayError):
    """A place cannot be reached, read or written."""


class ArtifactError(BabelrayError):
    """An artifact is damaged, incomplete or of the wrong kind."""


class TrainingError(BabelrayError):
    """A training went wrong: a loss that is not a number, a checkpoint that cannot be loaded."""


class ClusterError(BabelrayError):
    """Ray cannot be reached, or a worker failed for good."""
