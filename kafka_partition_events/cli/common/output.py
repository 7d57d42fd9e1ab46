"""What commands write: lines and tables for people, one JSON object a line for programs.

All of it goes through here, or gets its colours from `event_text.styled`: names and reasons are those of
others, and must not do anything to a terminal.
"""

import codecs
import json
import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from io import TextIOWrapper
from typing import Annotated, Any, TextIO, TypeVar

import typer

from kafka_partition_events.legible import ILLEGIBLE, legible
from kafka_partition_events.log import get_logger

_T = TypeVar("_T")


class Output(StrEnum):
    """How results are written."""

    TABLE = "table"
    JSONL = "jsonl"


OutputChoice = Annotated[
    Output | None,
    typer.Option(
        "--output", "-o", help="Default: table on a terminal, jsonl (one JSON object a line) in a pipe."
    ),
]


def choose_output(asked: Output | None) -> Output:
    """Return what was asked for; else a table on a terminal and JSON lines in a pipe."""
    return asked or (Output.TABLE if sys.stdout.isatty() else Output.JSONL)


def write_list(
    items: Iterable[_T],
    output: Output | None,
    document: Callable[[_T], Mapping[str, Any]],
    headers: Sequence[str],
    cells: Callable[[_T], Sequence[str]],
) -> None:
    """Write items as a table, each by its cells under the headers, or as JSON lines, each by its document."""
    if choose_output(output) is Output.TABLE:
        write_table([cells(item) for item in items], headers)
        return
    for item in items:
        write_json_line(document(item))


def write_table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> None:
    """Write rows under their headers, if there are any; each column is as wide as what is widest in it."""
    lines = [headers, *rows] if headers and rows else rows
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        write_line("  ".join(map(str.ljust, line, widths)).rstrip())


def write_line(line: str) -> None:
    """Write a line for people to standard output."""
    sys.stdout.write(f"{legible(line)}\n")
    sys.stdout.flush()


def report(line: str, *, error: bool = False) -> None:
    """Write a line for people to standard error; as JSON, where that has nothing else."""
    from kafka_partition_events.cli.common.logs import PROGRAM, in_json

    if in_json():
        log = get_logger(PROGRAM)
        (log.error if error else log.info)("reported", message=legible(line))
        return
    sys.stderr.write(f"kpe: {legible(line)}\n")
    sys.stderr.flush()


def write_json_line(document: Mapping[str, Any]) -> None:
    """Write one JSON object as one line."""
    write_json(json.dumps(document, separators=(",", ":"), ensure_ascii=False))


def write_json(text: str) -> None:
    """Write JSON, and end its line."""
    # A character that is not legible is escaped, which says the same.
    sys.stdout.write(f"{legible_json(text)}\n")
    sys.stdout.flush()


def legible_json(text: str) -> str:
    """Return JSON whose characters that are not legible are escaped, which says the same."""
    return ILLEGIBLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    # JSON has line feeds only between its parts.
    return found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}"


def _as_json(error: Any) -> tuple[str, int]:
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def escape_unwritable() -> None:
    """Let streams of another encoding than UTF-8 (LC_ALL=C) take everything: what they can't is escaped."""
    codecs.register_error("as-json", _as_json)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="as-json")


def reader_check(stream: TextIO) -> Callable[[], bool]:
    """Return a function that checks whether the reader of a pipe is gone.

    A program that writes nothing for a while would otherwise not notice: ``kpe watch | head -1`` would wait
    for the next event.
    """
    try:
        descriptor = stream.fileno()
        poll = select.poll()
    except (OSError, ValueError, AttributeError):  # captured by a test, or no poll on this system
        return lambda: False
    poll.register(descriptor, 0)  # errors are reported unasked
    return lambda: any(flags & select.POLLERR for _, flags in poll.poll(0))


def abandon_stdout() -> None:
    """Let what is left in standard output's buffer go nowhere, for its reader is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
