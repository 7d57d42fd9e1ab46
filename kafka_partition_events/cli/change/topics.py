"""``kpe topics``: the topics that change control needs."""

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import (
    Bootstrap,
    ClientOptions,
    OutputChoice,
    Verbose,
    parse_client_options,
)
from kafka_partition_events.cli.common.output import Output, choose_output, tell, write_json_line, write_line
from kafka_partition_events.cli.services.services import check_options
from kafka_partition_events.control.protocol.acls import Part, as_commands
from kafka_partition_events.control.protocol.topics import (
    PREFIX,
    Configure,
    Difference,
    Unfit,
    control_topics,
    differences,
    few_replicas,
)
from kafka_partition_events.errors import ConfigurationError

topics_app = typer.Typer(rich_markup_mode=None)


@topics_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, told in one line on stderr. "
    "`kpe topics COMMAND --help` has examples."
)
def topics() -> None:
    """Make the topics that change control needs.

    \b
    kpe topics init -b localhost:9092 --dry-run
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@topics_app.command("init", short_help="Create the control topics, or set them right.")
def init_command(
    bootstrap: Bootstrap,
    client_options: ClientOptions = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What their names begin with.")] = PREFIX,
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
    output: OutputChoice = None,
    verbose: Verbose = False,
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
    configure_logs(verbose=verbose)
    if print_acls:
        for line in as_commands(_parts(who or ()), bootstrap, prefix, grows or ()):
            write_line(line)
        return
    config = parse_client_options(bootstrap, client_options or ())
    check_options(config)
    try:
        from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin  # noqa: PLC0415
    except ImportError as error:
        raise CliError(one_line(error)) from error
    try:
        wanted = control_topics(prefix)
    except ConfigurationError as error:
        raise CliError(f"--prefix {error}") from None
    with contextlib.closing(ControlTopicAdmin(config)) as admin:
        found = admin.look(wanted)
        differing = differences(wanted, found)
        held = replicas or admin.replicas()
        if not dry_run:
            admin.carry_out(differing, held)
    for difference in differing:
        _show(difference, choose_output(output), done=not dry_run)
    if few := few_replicas(found, held):
        told = ", ".join(f"{name} ({has})" for name, has in few.items())
        tell(f"note: fewer than {held} replicas: {told}; kafka-reassign-partitions.sh adds some")
    if unfit := [difference for difference in differing if isinstance(difference, Unfit)]:
        raise CliError("; ".join(map(str, unfit)))
    if dry_run or not differing:
        note = "nothing was done; it would be" if differing else "all topics are as they should be"
        tell(f"note: {note}")


def _parts(given: Sequence[str]) -> list[tuple[Part, str]]:
    """Return who plays which part.

    Raises:
        CliError: there is no such part, or nobody is said to play it.
    """
    if not given:
        return [(part, f"User:{part}") for part in Part]
    found = []
    for pair in given:
        name, _, principal = pair.partition("=")
        if name not in list(Part) or ":" not in principal:
            raise CliError(
                f"--acl {pair!r}: write PART=PRINCIPAL, as in approver=User:carol; {', '.join(Part)}"
            )
        found.append((Part(name), principal))
    return found


def _show(difference: Difference, output: Output, *, done: bool) -> None:
    if output is Output.TABLE:
        write_line(str(difference))
        return
    action = type(difference).__name__.lower()
    write_json_line(
        {
            "topic": difference.topic.name,
            "action": action,
            "done": done and not isinstance(difference, Unfit),
            "partitions": difference.topic.partitions,
            "config": dict(difference.topic.config),
            "found": _found(difference),
        }
    )


def _found(difference: Difference) -> dict[str, Any] | None:
    """Return what is otherwise now; None: the topic is not there."""
    match difference:
        case Unfit():
            return {"partitions": difference.partitions}
        case Configure():
            return {"config": {name: found for name, (found, _) in difference.differing.items()}}
    return None
