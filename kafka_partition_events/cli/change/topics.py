"""``kpe topics``: the topics that change control needs."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, one_line
from kafka_partition_events.cli.common.options import parse_parts, with_options
from kafka_partition_events.cli.common.output import Listing, tell, write_line
from kafka_partition_events.cli.common.settings import ControlOptions, ControlTopics
from kafka_partition_events.cli.services.services import check_options
from kafka_partition_events.control.protocol.acls import Part, as_commands
from kafka_partition_events.control.protocol.topics import (
    Configure,
    ControlTopic,
    Difference,
    FoundTopic,
    Unfit,
    control_topics,
    differences,
    few_replicas,
)
from kafka_partition_events.errors import ConfigurationError

if TYPE_CHECKING:
    from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin

topics_app = typer.Typer(rich_markup_mode=None)


@topics_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe topics COMMAND --help` has examples."
)
def topics() -> None:
    """Make the topics that change control needs.

    \b
    kpe topics init -b localhost:9092 --dry-run
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@topics_app.command("init", short_help="Create the control topics, or set them right.")
@with_options
def init_command(
    *,
    replicas: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of new topics. Default: 3, or as many as there are brokers."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; do nothing.")] = False,
    print_acls: Annotated[
        bool, typer.Option("--print-acls", help="Print who needs which rights, for a shell; do nothing.")
    ] = False,
    who: Annotated[
        list[str] | None,
        typer.Option(
            "--acl",
            metavar="PART=PRINCIPAL",
            help="With --print-acls: who plays a part (requester, approver, tracker, producer, consumer, "
            "reader). Repeat it for more; by default one user for each part.",
        ),
    ] = None,
    grows: Annotated[
        list[str] | None,
        typer.Option(
            "--grow",
            metavar="TOPIC",
            help="With --print-acls: a topic that the tracker may grow; shop.* is a family. Repeat it.",
        ),
    ] = None,
    where: ControlOptions,
    listing: Listing,
) -> None:
    """Create kpe.commands, kpe.approvals, kpe.changes, kpe.leases and kpe.acks, or set right what differs.

    Shows each difference. Done twice, the second time does nothing. A setting of a topic that change control
    does not depend on is left alone. Needs the rights to describe, create and alter these topics.

    \b
    kpe topics init -b localhost:9092 --dry-run
    kpe topics init -b localhost:9092
    kpe topics init -b localhost:9092 --prefix staging. --replicas 1
    kpe topics init -b localhost:9092 --print-acls --acl tracker=User:kpe --grow 'shop.*'

    Exit codes: 0 they are as they should be (with --dry-run: shown); 2 one has too many partitions; wrong
    address, refused, unknown option.
    """  # noqa: D301
    found = where.find()
    if print_acls:
        for line in as_commands(
            parse_parts(who or (), Part), found.control["bootstrap.servers"], found.prefix, grows or ()
        ):
            write_line(line)
        return
    with _administered(found) as (admin, wanted):
        there = admin.look(wanted)
        differing = differences(wanted, there)
        held = replicas or admin.replicas()
        if not dry_run:
            admin.carry_out(differing, held)
    listing.write(
        differing,
        lambda difference: _document(difference, done=not dry_run),
        (),
        lambda difference: (str(difference),),
    )
    if few := few_replicas(there, held):
        told = ", ".join(f"{name} ({has})" for name, has in few.items())
        tell(f"note: fewer than {held} replicas: {told}; kafka-reassign-partitions.sh adds some")
    if unfit := [difference for difference in differing if isinstance(difference, Unfit)]:
        raise CliError("; ".join(map(str, unfit)))
    if dry_run or not differing:
        note = "nothing was done; it would be" if differing else "all topics are as they should be"
        tell(f"note: {note}")


@topics_app.command("ls", short_help="List the control topics.")
@with_options
def ls_command(
    where: ControlOptions,
    listing: Listing,
) -> None:
    """List the control topics: partitions, replicas, and what is not as it should be.

    \b
    kpe topics ls -b localhost:9092
    kpe topics ls -b localhost:9092 | jq -r 'select(.wrong != null) | .topic'

    Exit codes: 0 they are as they should be; 1 something is missing or differs: see `kpe topics init`; 2
    wrong address, refused, unknown option.
    """  # noqa: D301
    with _administered(where.find()) as (admin, wanted):
        there = admin.look(wanted)
    wrong = {difference.topic.name: str(difference) for difference in differences(wanted, there)}
    rows = [_row(topic.name, there.get(topic.name), wrong.get(topic.name)) for topic in wanted]
    listing.write(rows, lambda row: row, ("TOPIC", "PARTITIONS", "REPLICAS", "DIFFERS"), _cells)
    if wrong:
        raise typer.Exit(EXIT_DIFFERENT)


def _row(name: str, there: FoundTopic | None, wrong: str | None) -> dict[str, Any]:
    return {
        "kind": "control_topic",
        "topic": name,
        "partitions": there and there.partitions,
        "replicas": there and there.replicas,
        "wrong": wrong,
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return row["topic"], *(
        "-" if row[key] is None else f"{row[key]}" for key in ("partitions", "replicas", "wrong")
    )


@contextlib.contextmanager
def _administered(found: ControlTopics) -> Iterator[tuple["ControlTopicAdmin", tuple[ControlTopic, ...]]]:
    """Open a way to the control topics, and tell what they should be."""
    check_options(found.control)
    try:
        from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin  # noqa: PLC0415
    except ImportError as error:
        raise CliError(one_line(error)) from error
    try:
        wanted = control_topics(found.prefix)
    except ConfigurationError as error:
        raise CliError(f"--prefix {error}") from None
    with contextlib.closing(ControlTopicAdmin(found.control)) as admin:
        yield admin, wanted


def _document(difference: Difference, *, done: bool) -> dict[str, Any]:
    return {
        "topic": difference.topic.name,
        "action": type(difference).__name__.lower(),
        "done": done and not isinstance(difference, Unfit),
        "partitions": difference.topic.partitions,
        "config": dict(difference.topic.config),
        "found": _found(difference),
    }


def _found(difference: Difference) -> dict[str, Any] | None:
    """Return what is otherwise now; None: the topic is not there."""
    match difference:
        case Unfit():
            return {"partitions": difference.partitions}
        case Configure():
            return {"config": {name: found for name, (found, _) in difference.differing.items()}}
    return None
