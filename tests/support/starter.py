"""The starter corpus."""

from babelray.storage.location import STARTER


def starter_lines(code: str, folder: str = "text") -> list[str]:
    """All lines of a language's file, blank ones included."""
    return (STARTER / folder / f"{code}.txt").read_text(encoding="utf-8").split("\n")
