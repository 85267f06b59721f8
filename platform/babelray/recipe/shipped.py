"""The recipes and the sweep spaces that are shipped, by their names."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class ShippedFiles:
    """The YAML files of one kind: inside an installed package, or in the folder of a clone where they are edited."""

    kind: str
    """What one of them is called in messages."""
    installed: Path
    """The folder to which `setup.py` copies them."""
    edited: Path
    """The folder in a clone of the project."""

    @property
    def folder(self) -> Path:
        return self.installed if self.installed.is_dir() else self.edited

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.yaml"))

    def path(self, name: str) -> Path:
        """The file of a name."""
        return self.folder / f"{name}.yaml"

    def read(self, name: str) -> str:
        """The text of a name."""
        return self.path(name).read_text(encoding="utf-8")

    def locate(self, given: str | Path) -> Path:
        """The file that is meant: the one at a path, else the shipped one of that name, else the path as given."""
        path = Path(given)
        return self.path(str(given)) if not path.is_file() and str(given) in self.names() else path

    def explain_missing(self, given: str | Path) -> tuple[str, str]:
        """What is wrong with a path at which there is no file, and a remedy."""
        names = self.names()
        similar = difflib.get_close_matches(Path(given).stem, names, n=1)
        hint = f"; did you mean {similar[0]!r}?" if similar else ""
        remedy = f"Give the path of a YAML file, or the name of a shipped {self.kind}: {', '.join(names)}."
        return f"there is no {self.kind} at {given}{hint}", remedy


RECIPES = ShippedFiles("recipe", PACKAGE / "shipped/recipes", PACKAGE.parents[1] / "jobs/recipes")
SPACES = ShippedFiles("space", PACKAGE / "shipped/spaces", PACKAGE.parents[1] / "tune/spaces")


def description(text: str) -> str:
    r"""What a recipe or a space is for: the first sentence of its first comment, or what is before a colon.

    >>> description("# The same as Ye et al. (2024), on\n# two cores: every system. Needs data.\nname: stitching")
    'The same as Ye et al. (2024), on two cores'
    """
    comment = re.match(r"(#.*\n?)*", text)
    sentences = " ".join(line.strip("# ") for line in (comment[0] if comment else "").splitlines())
    return re.split(r'(?<=[?])\s|[.:](?=\s+[A-Za-z"`]|$)', sentences, maxsplit=1)[0]
