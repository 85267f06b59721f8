"""The `babelray` command, assembled from its groups; one command per registered stage."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from babelray.commands import align, benchmarks, dashboard, doctor, init, inspection, lists, submit, sweep, word_align
from babelray.commands import run as runs
from babelray.commands import runs as stored
from babelray.commands.options import console, errors
from babelray.errors import INTERRUPTED, BabelrayError
from babelray.packages import explain_missing
from babelray.pipeline.plan import ordered_stages
from babelray.version import __version__


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"babelray {__version__}", highlight=False)
        raise typer.Exit


def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and the output of workers.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    if debug:
        os.environ["BABELRAY_DEBUG"] = "1"


INSPECT = ["corpus", "inspect"]
STAGE_COMMANDS = {"corpus": runs.corpus, "align": align.align, "evaluate": benchmarks.evaluate}
"""Commands of stages that take more than a recipe."""


def assemble() -> typer.Typer:
    """All commands, in the order of the help."""
    app = typer.Typer(
        name="babelray",
        help="Align the languages inside a multilingual encoder, and measure the result.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        callback=_options,
    )
    app.command()(init.init)
    app.command()(runs.run)
    for stage in ordered_stages().values():
        _add_stage(app, stage)
    for command in (
        align.bli,
        word_align.word_align,
        benchmarks.compare,
        sweep.sweep,
        submit.submit,
        lists.recipes,
        lists.components,
        lists.languages,
    ):
        app.command()(command)
    app.command(" ".join(INSPECT), hidden=True)(runs.inspect_corpus)
    app.add_typer(stored.runs, name="runs")
    app.add_typer(inspection.vectors, name="vectors")
    app.add_typer(inspection.transport, name="transport")
    app.command()(doctor.doctor)
    app.command()(dashboard.dashboard)
    return app


def _add_stage(app: typer.Typer, stage: Any) -> None:
    """The command of a stage; a comparison of variants is made by `run` alone."""
    if own := STAGE_COMMANDS.get(stage.name):
        app.command(stage.name, help=runs.stage_help(stage, own.__doc__ or ""))(own)
    elif not stage.compares:
        app.command(stage.name)(runs.stage_command(stage))


app = assemble()


def main() -> None:
    """Run the command; errors meant for the user are printed without a traceback."""
    try:
        with explain_missing(f"`{' '.join(['babelray', *sys.argv[1:2]])}`"):
            code = app(_arguments(sys.argv[1:]), standalone_mode=False) or 0
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            errors.print("stopped; run the same command again to resume")
        sys.exit(code)
    except BabelrayError as error:
        if os.environ.get("BABELRAY_DEBUG"):
            raise
        print_error(error)
        sys.exit(2)
    except Exception as error:
        # A usage error of the command-line parser; anything else is a defect and keeps its traceback.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        sys.exit(error.exit_code)


def _arguments(arguments: list[str]) -> list[str]:
    """`corpus inspect` is a command of its own beside `corpus RECIPE`: its two words as one name."""
    return [" ".join(INSPECT), *arguments[2:]] if arguments[:2] == INSPECT else arguments


def print_error(error: BabelrayError) -> None:
    """Print the problem and its remedy."""
    from rich.markup import escape

    errors.print(f"[red]error:[/] {escape(error.problem)}", highlight=False, soft_wrap=True)
    if error.remedy:
        errors.print(f"       {escape(error.remedy)}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
