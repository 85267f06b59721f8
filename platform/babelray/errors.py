"""The errors that are written for users.

Each states the problem, its location and a remedy. The command line prints them without a traceback and exits with code
2; any other exception that reaches the user is a defect of Babelray.
"""

from __future__ import annotations

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
