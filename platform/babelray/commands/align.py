"""The commands `align` and `bli`: mapping the vectors of a run, or two files of vectors, and scoring them."""

from __future__ import annotations

from typing import Annotated

import typer

from babelray.commands.options import DryRun, Force, Overrides, console, positional_settings, refuse_recipe_options
from babelray.commands.run import run_recipe
from babelray.errors import BabelrayError
from babelray.mapping.method import MAPPING_METHODS

Lowercase = Annotated[bool, typer.Option(help="Whether words of dictionaries are lower-cased, as in recipes.")]
Limit = Annotated[int, typer.Option(min=2, help="The number of most frequent words to read from each file.")]


def align(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE]", help="A YAML file; none with --source and --target.")
    ] = None,
    overrides: Overrides = None,
    dry_run: DryRun = False,
    force: Force = None,
    source: Annotated[str | None, typer.Option(metavar="FILE", help="Vectors to map: .vec, .txt, .bin, .gz.")] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Vectors that they are mapped to.")] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help=f"The mapping method: {', '.join(MAPPING_METHODS)}.")
    ] = "vecmap",
    dictionary: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Two words per line, or `identical` for words spelt alike. Without it the mapping is unsupervised.",
        ),
    ] = None,
    self_learning: Annotated[
        bool | None,
        typer.Option(help="vecmap: whether the dictionary is only the start. [default: unless it is a file]"),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for both mapped files and the mapping.")
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="A dictionary to score the result with.")] = None,
    limit: Limit = 200_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 1,
    lowercase: Lowercase = True,
) -> None:
    """Without a recipe: map one file of vectors to another.

    `babelray align --source de.vec --target en.vec --dictionary de-en.txt --out mapped cutoff=10000`

    Settings of the method, such as `cutoff` of vecmap (the default), are given as in a recipe.
    """
    if source is None and target is None:
        if recipe is None:
            raise BabelrayError("align needs a recipe, or --source and --target", "See babelray align --help.")
        run_recipe(recipe, overrides, "align", dry_run, force)
        return
    from babelray.commands.align_files import align_files, configure_method

    if source is None or target is None or out is None:
        raise BabelrayError("two files need --source, --target and --out", "See babelray align --help.")
    refuse_recipe_options(dry_run, force, "two files")
    config = configure_method(method, positional_settings(recipe, overrides), dictionary, self_learning)
    align_files(source, target, out, config, console, dictionary, test, limit, seed, lowercase)


def bli(
    source: Annotated[str, typer.Option(metavar="FILE", help="Vectors of the words to translate.")],
    target: Annotated[str, typer.Option(metavar="FILE", help="Vectors of the candidate translations.")],
    test: Annotated[str, typer.Option(metavar="FILE", help="The dictionary: two words per line.")],
    limit: Limit = 200_000,
    inverted_softmax: Annotated[
        float,
        typer.Option(metavar="BETA", min=0.0, help="Also score by inverted softmax with this inverse temperature."),
    ] = 0.0,
    lowercase: Lowercase = True,
) -> None:
    """Score word translation between two files of vectors in one space: P@1, P@5, P@10, MRR, by NN and CSLS."""
    from babelray.commands.align_files import bli_of_files

    bli_of_files(source, target, test, console, limit, inverted_softmax, lowercase)
