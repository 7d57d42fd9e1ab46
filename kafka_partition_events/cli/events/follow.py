"""``kpe events follow``: what is being recorded."""

import contextlib
import math
import sys
import threading
from collections.abc import Iterator

import typer

from kafka_partition_events.cli.common.options import StopAfter, parse_duration, with_options
from kafka_partition_events.cli.common.output import OutputChoice, reader_check
from kafka_partition_events.cli.events.recorded import Recorded, write_entries
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.outbox import Entry
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox

_POLL_S = 1.0


@with_options
def follow_command(
    context: typer.Context, *, wanted: Recorded, for_: StopAfter = None, output: OutputChoice = None
) -> None:
    """Show events as they are recorded, until Ctrl-C; with --since those of before, too.

    \b
    kpe events follow --outbox /var/lib/kpe/outbox.db
    kpe events follow --config kpe.toml --since 1h
    kpe events follow --config kpe.toml --type 'partition.offline' --output jsonl | jq -c .data

    Exit codes: 0 the time of --for is over, or Ctrl-C; 2 no such outbox, wrong option.
    """  # noqa: D301
    limit = math.inf if for_ is None else parse_duration(for_)
    with wanted.opened() as outbox, contextlib.suppress(KeyboardInterrupt):
        write_entries(outbox.path, _follow(outbox, wanted, context.obj.clock, limit), output)


def _follow(outbox: SqliteOutbox, wanted: Recorded, clock: Clock, limit: float) -> Iterator[Entry]:
    """Yield entries as they come. Another process writes them, so this polls, once a second."""
    reader_gone, pause, now = reader_check(sys.stdout), threading.Condition(), clock.now()
    deadline = clock.monotonic() + limit
    last = outbox.last_seq if wanted.since is None else 0
    while True:
        # What comes meanwhile lies behind it; what lies before it and does not match is read only once.
        end = outbox.last_seq
        for entry in wanted.entries(outbox, now, after=last):
            last = entry.seq
            yield entry
        last = max(last, end)
        if reader_gone():
            raise BrokenPipeError
        left = deadline - clock.monotonic()
        if left <= 0:
            return
        with pause:
            clock.wait(pause, min(left, _POLL_S))
