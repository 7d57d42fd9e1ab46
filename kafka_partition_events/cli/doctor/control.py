"""``kpe doctor control``: records in the control topics that everybody passes over."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer
from attrs import asdict

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, one_line
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    write_document,
    write_line,
)
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.protocol.codec import Skipped
from kafka_partition_events.errors import ControlTopicError

_COMMANDS_S: Final = 15.0
"""The first read tells of a wrong address, and is short."""
_OTHERS_S: Final = 120.0
_CURES: Final = {
    "malformed": "no version of this library writes such; kafka-acls.sh --list tells who may write there",
    "version": "a later version of this library has written them; update what is older, trackers first",
}


def diagnose_control(config: Mapping[str, str], prefix: str, output: Output, services: Services) -> int:
    """Read the control topics, say which records are passed over and why, and return the exit code.

    Args:
        config: How to connect.
        prefix: What the names of the control topics begin with.
        output: The form.
        services: The world outside.

    Raises:
        CliError: they can't be read. Of the options, the message tells names but no values.
    """
    try:
        with contextlib.closing(services.open_log(config, prefix)) as log:
            log.read_commands(_COMMANDS_S)
            log.read(_OTHERS_S)
            skipped = log.skipped
    except (CliError, ControlTopicError) as error:
        raise CliError(redacted(one_line(error), config)) from None
    if output is Output.TABLE:
        for line in _lines(skipped):
            write_line(line)
    else:
        write_document(_document(skipped, prefix), output)
    return EXIT_DIFFERENT if skipped else 0


def _document(skipped: Skipped, prefix: str) -> dict[str, Any]:
    return {
        "kind": "control_diagnosis",
        "prefix": prefix,
        "skipped": {reason: skipped.counts[reason] for reason in _CURES},
        "latest": [asdict(odd) for odd in skipped.latest],
    }


def _lines(skipped: Skipped) -> Iterator[str]:
    if not skipped:
        yield "no record is skipped"
        return
    width = max(len(f"{odd.topic}-{odd.partition}") for odd in skipped.latest)
    yield f"{'partition':<{width}}  {'offset':>12}  reason"
    for odd in skipped.latest:
        yield f"{f'{odd.topic}-{odd.partition}':<{width}}  {odd.offset:>12}  {odd.reason}"
    if (more := skipped.counts.total() - len(skipped.latest)) > 0:
        yield f"and {more:,} before these"
    for reason, cure in _CURES.items():
        if number := skipped.counts[reason]:
            yield f"{counted(number, 'record')} skipped, {reason}: {cure}"


@with_options
def control_command(
    context: typer.Context,
    *,
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """List the records in the control topics that every reader skips, and why.

    malformed: no record of change control, or one with something in it that can't be. version: a later
    version of this library has written it. Such a command, change, lease or ack has no effect, and no reader
    stops at it; it goes as all others do, by retention or compaction. Reads all four topics to their ends,
    without joining a group. All such records are counted, the latest 100 listed.

    \b
    kpe doctor control -b localhost:9092
    kpe doctor control -b localhost:9092 --prefix staging.
    kpe doctor control -b localhost:9092 | jq -r '.latest[] | [.topic, .partition, .offset, .reason] | @tsv'

    Exit codes: 0 none is skipped; 1 some are; 2 no control topics, no right to read them, wrong address,
    unknown option.
    """  # noqa: D301
    found = where.find()
    raise typer.Exit(diagnose_control(found.control, found.prefix, choose_output(output), context.obj))
