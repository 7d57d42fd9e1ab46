"""What commands write: lines and tables for people, one JSON object a line for programs.

All of it goes through here, or gets its colours from `cli.render.styled`: names and reasons are those of
others, and must not do anything to a terminal.
"""

import json
import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, TextIO, TypeVar

import typer
from attrs import frozen
from rich.console import Console
from rich.text import Text

from kafka_partition_events.cli.common.event_text import shape, styled, table_line, totals
from kafka_partition_events.cli.common.logs import PROGRAM, in_json
from kafka_partition_events.events.event_json import encode_event
from kafka_partition_events.legible import ILLEGIBLE, legible
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster

_T = TypeVar("_T")
_TOPICS_LISTED = 20


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


@frozen(kw_only=True)
class Listing:
    """How a list is written: a group of options.

    Attributes:
        output: The form.
    """

    output: OutputChoice = None

    def write(
        self,
        items: Iterable[_T],
        document: Callable[[_T], Mapping[str, Any]],
        headers: Sequence[str],
        cells: Callable[[_T], Sequence[str]],
    ) -> None:
        """Write items.

        Args:
            items: What there is.
            document: Returns one as a JSON object.
            headers: What stands above the columns of the table.
            cells: Returns one as a row of it.
        """
        if choose_output(self.output) is Output.TABLE:
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


class Printer:
    """Writes events to standard output, each at once, so that a pipe's reader sees it."""

    def __init__(self, output: Output, *, timed: bool = True) -> None:
        """Make a printer.

        Args:
            output: The form.
            timed: Whether table lines begin with the time.
        """
        self._table = output is Output.TABLE
        self._timed = timed
        # Rich itself leaves colours out where there is no terminal, or where NO_COLOR is set.
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

    def event(self, event: ev.Event) -> None:
        """Write one event."""
        if self._table:
            self._line(table_line(event, timed=self._timed))
        else:
            write_json_line(encode_event(event))

    def state(self, cluster: Cluster, initial: Sequence[ev.Event]) -> None:
        """Write what the cluster is now: in the table a summary and what is offline, else every event."""
        if not self._table:
            for event in initial:
                self.event(event)
            return
        self._line(styled((f"cluster {cluster.cluster_id or '(id unknown)'}: {totals(cluster)}", "bold")))
        names = sorted(cluster.by_topic)
        for name in names[:_TOPICS_LISTED]:
            self._line(styled((f"  {name}: {shape(cluster.by_topic[name])}", "dim")))
        if len(names) > _TOPICS_LISTED:
            self._line(styled((f"  and {len(names) - _TOPICS_LISTED:,} more topics", "dim")))
        for event in initial:
            if isinstance(event, ev.PartitionOffline):
                self.event(event)

    def _line(self, text: Text) -> None:
        self._console.print(text)
        sys.stdout.flush()


def write_line(line: str) -> None:
    """Write a line for people to standard output."""
    sys.stdout.write(f"{legible(line)}\n")
    sys.stdout.flush()


def tell(line: str, *, error: bool = False) -> None:
    """Write a line for people to standard error; as JSON, where that has nothing else."""
    if in_json():
        log = get_logger(PROGRAM)
        (log.error if error else log.info)("told", message=legible(line))
        return
    sys.stderr.write(f"kpe: {legible(line)}\n")
    sys.stderr.flush()


def write_json_line(document: Mapping[str, Any]) -> None:
    """Write one JSON object as one line."""
    write_json(json.dumps(document, separators=(",", ":"), ensure_ascii=False))


def write_json(text: str) -> None:
    """Write JSON, and end its line."""
    sys.stdout.write(f"{legible_json(text)}\n")
    sys.stdout.flush()


def legible_json(text: str) -> str:
    """Return JSON whose characters that are not legible are escaped, which says the same."""
    return ILLEGIBLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    # JSON has line feeds only between its parts.
    return found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}"


def reader_check(stream: TextIO) -> Callable[[], bool]:
    """Return a function that tells whether the reader of a pipe is gone.

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
