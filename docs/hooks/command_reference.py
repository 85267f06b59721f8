"""The page about commands, from the `babelray` command itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import EnumMeta
from typing import Any, Literal, get_args, get_origin

import typer.main

from babelray.commands.app import app

INTRODUCTION = """Every command prints this with `--help`. Exit codes: 0 for success, 2 for an error that has a remedy,
130 after Ctrl-C."""


def page() -> str:
    """The Markdown of all commands that are not hidden."""
    parts = [f"# Commands\n\n{INTRODUCTION}"]
    parts += [_section(name, command) for name, command in commands(typer.main.get_command(app), "babelray")]
    return "\n\n".join(parts)


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command with its whole name, groups before what they contain."""
    yield name, command
    for below, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from commands(inner, f"{name} {below}")


def _section(name: str, command: Any) -> str:
    is_group = bool(getattr(command, "commands", {}))
    parameters = [parameter for parameter in command.params if parameter.name != "help"]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option" and not parameter.hidden]
    usage = " ".join([name, *map(_metavar, arguments), *(["COMMAND"] if is_group else [])])
    usage += " [OPTIONS]" if options else ""
    lines = [f"## {name}", inspect.cleandoc(command.help or ""), f"```text\n{usage}\n```"]
    lines += [_entry(f"`{_metavar(argument)}`", argument) for argument in arguments]
    lines += [_entry(_title(option), option) for option in options]
    return "\n\n".join(filter(None, lines))


def _metavar(argument: Any) -> str:
    metavar = (argument.metavar or (argument.name or "").upper()).replace("...", "…")
    if argument.required or metavar.startswith("["):
        return metavar + ("…" if argument.nargs == -1 and "…" not in metavar else "")
    return f"[{metavar}{'…' if argument.nargs == -1 else ''}]"


def _title(option: Any) -> str:
    """The names of an option, and what stands for its value."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    return f"`{names}{'' if option.is_flag or not option.metavar else ' ' + option.metavar}`"


def _members(annotation: Any) -> list[Any]:
    members: Any = annotation if isinstance(annotation, EnumMeta) else ()
    return [member.value for member in members]


def _entry(title: str, parameter: Any) -> str:
    """A parameter as an entry of a definition list."""
    facts = []
    annotation = parameter.type_descriptor.annotation
    choices = get_args(annotation) if get_origin(annotation) is Literal else _members(annotation)
    if choices:
        facts.append(" \\| ".join(f"`{choice}`" for choice in choices))
    default = getattr(parameter.default, "value", parameter.default)
    if parameter.required:
        facts.append("**required**")
    elif default not in (None, False, "", (), []) and not callable(default):
        facts.append(f"default `{default}`")
    text = " ".join((getattr(parameter, "help", None) or "").split()) or "<!-- -->"
    return f"{title}{{ .key }} {', '.join(facts)}\n:   {text}"
