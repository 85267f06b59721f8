"""The command `init`: a folder with a recipe to edit."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from babelray.commands.options import console
from babelray.errors import RecipeError, StorageError

RECIPE = "recipe.yaml"
HEADER = """\
# Written by `babelray init` from the shipped recipe {recipe}. In this folder:
#   babelray run recipe.yaml --dry-run     check the recipe; print all its values and what would run
#   babelray run recipe.yaml               run it; an interrupted run resumes, and complete stages are reused
# Hints are at the end.

"""
HINTS = {
    "Your own text, translations and dictionaries, by language": """\
corpus:
  text: {path: "text/{lang}.txt"}                           # one paragraph per line; also jsonl, parquet, compressed
  parallel: {path: "parallel/{hub}-{lang}.tsv", held_out: 0.05}
  dictionary: {path: "dictionaries/{hub}-{lang}.txt", held_out: 0.2}
""",
    "Another encoder: a folder, or a name on the model hub": """\
encoder: {path: xlm-roberta-base}
""",
    "Static vectors that are learned from much text (`aggregate`, the mean, needs little)": """\
extract: {method: x2static, layer: 6}
""",
    "A mapping without a dictionary": """\
align: {mapping: vecmap, dictionary: none}
""",
    "Training without parallel text; validation keeps the best checkpoint": """\
pretrain:
  steps: 7500
  objectives:
    - {kind: mlm, batch_size: 64}
    - {kind: static-dcca, batch_size: 1024}
  validation: {every: 250, best: retrieval}
""",
}
"""Parts of recipes to put in the place of one's own, by what they are for."""
COMMANDS = """\
`babelray components` lists the objectives, methods and benchmarks; `babelray recipes` the shipped recipes;
`babelray doctor` checks this machine.
"""


def init(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where to write; it is made if it does not exist.")],
    recipe: Annotated[
        str, typer.Option(metavar="NAME", help="The shipped recipe to copy; `babelray recipes` lists them.")
    ] = "quickstart",
) -> None:
    """Write a recipe to edit: a copy of a shipped one, with its comments and with hints.

    Files that exist are not overwritten.
    """
    from babelray.recipe.shipped import RECIPES

    if recipe not in RECIPES.names():
        raise RecipeError(*RECIPES.explain_missing(recipe))
    path = _write(Path(folder), recipe_text(recipe, RECIPES.read(recipe), Path(folder).resolve().name))
    console.print(f"{path}: a copy of the recipe {recipe}", highlight=False, soft_wrap=True)
    console.print(f"Edit it, then: cd {shlex.quote(folder)} && babelray run {RECIPE}", highlight=False, soft_wrap=True)


def recipe_text(recipe: str, text: str, name: str) -> str:
    """A shipped recipe as the beginning of one's own: named anew, with commands before and hints after it."""
    from babelray.recipe.run import NAME

    if re.fullmatch(NAME, name):
        text = re.sub(r"^name: .*$", f"name: {name}", text, count=1, flags=re.MULTILINE)
    parts = [HEADER.format(recipe=recipe), text]
    if re.search("^corpus:", text, re.MULTILINE):  # a simulation has other keys
        parts += ["\n", _comment("Hints: parts to put in the place of those above.\n")]
        parts += [_comment(f"\n{purpose}:\n{part}") for purpose, part in HINTS.items()]
    return "".join([*parts, _comment(f"\n{COMMANDS}")])


def _comment(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def _write(folder: Path, text: str) -> Path:
    """Write the recipe, and keep what its runs write out of version control."""
    path = folder / RECIPE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        if not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text("runs/\n", encoding="utf-8")
    except FileExistsError:
        raise StorageError(f"{path} exists", "Give another folder, or move this file away.") from None
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "Give a folder that can be written to.") from None
    return path
