"""The page of `kpe`'s commands, from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from docs.generate.markdown import code, fenced
from kafka_partition_events.cli.app import app

_INTRODUCTION = """# `kpe`: all commands

What holds for all of them (which cluster, output, exit codes) stands in [The command line](../cli.md).
"""
_EXAMPLES = "\b"  # typer's mark before lines that are not to be wrapped


def page() -> str:
    """Return the page."""
    top = typer.main.get_command(app)
    return "\n".join([_INTRODUCTION, *_sections(top, ["kpe"])])


def _sections(command: Any, path: list[str]) -> Iterator[str]:
    if len(path) > 1:
        yield f"{'#' * len(path)} `{' '.join(path)}`\n"
    yield from _help(command.help or "")
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if len(path) > 1 and parameters:
        yield "\n".join(f"- {_parameter(parameter)}" for parameter in parameters) + "\n"
    if command.epilog:
        yield f"{command.epilog}\n"
    for name, inner in getattr(command, "commands", {}).items():
        yield from _sections(inner, [*path, name])


def _help(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        mark, _, lines = paragraph.partition("\n")
        if mark.strip() == _EXAMPLES:
            yield fenced("console" if lines.startswith("kpe ") else "text", lines)
        else:
            yield f"{paragraph}\n"


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = parameter.metavar or parameter.name.upper()
    else:
        names = ", ".join([*parameter.opts, *parameter.secondary_opts])
        if not parameter.is_flag:
            names += f" {parameter.metavar or parameter.name.rstrip('_').upper()}"
    more = [
        "Required." if parameter.required else "",
        f"Default: {code(parameter.default)}." if _is_shown(parameter.default) else "",
        f"Environment: {code(parameter.envvar)}." if parameter.envvar else "",
        "May be repeated." if getattr(parameter, "multiple", False) else "",
    ]
    return f"{code(names)}: " + " ".join(filter(None, [(parameter.help or "").strip(), *more]))


def _is_shown(default: object) -> bool:
    return isinstance(default, str | int | float) and not isinstance(default, bool)
