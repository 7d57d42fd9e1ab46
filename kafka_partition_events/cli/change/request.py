"""``kpe change request``."""

import os
import re
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.change.session import Giving, Yes, give, session
from kafka_partition_events.cli.change.spec import Wanted, check_topic, look_at_cluster, spec_of
from kafka_partition_events.cli.change.text import subject
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.control.protocol.records import RANDOM_BYTES, Command, ulid
from kafka_partition_events.control.protocol.topics import CHANGES
from kafka_partition_events.control.protocol.vocabulary import Execute, Kind, OnDeadline, OnReject, Verb

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
"""Keys in the control topics are made of ids and ``|``."""


@with_options
def request_command(
    context: typer.Context,
    wanted: Wanted,
    *,
    deadline: Annotated[
        str,
        typer.Option(metavar="DURATION", help="After it has happened, all must follow within this time."),
    ] = "10m",
    on_deadline: Annotated[
        OnDeadline, typer.Option(help="What becomes of a gate that is held when the deadline passes.")
    ] = OnDeadline.OPEN,
    expires: Annotated[
        str, typer.Option(metavar="DURATION", help="It must happen within this time of the request.")
    ] = "1h",
    settle: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="When its assignment has stood so long, a group without commits has a position; 0: never.",
        ),
    ] = "30s",
    min_acked: Annotated[
        float, typer.Option(metavar="RATIO", help="Which part of the live producers must follow.")
    ] = 1.0,
    on_reject: Annotated[
        OnReject, typer.Option(help="What becomes of it when a producer's policy rejects it.")
    ] = OnReject.CONTINUE,
    accept_capped: Annotated[
        bool, typer.Option("--accept-capped", help="Capped producers count as if they had followed.")
    ] = False,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Let the tracker create the partitions when producers are ready."),
    ] = False,
    needs_approval: Annotated[
        bool, typer.Option("--needs-approval", help="Nothing happens before another person approves.")
    ] = False,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="Its id; sent twice, it is requested once. Default: a new ULID."
        ),
    ] = None,
    yes: Yes = False,
    where: ControlOptions,
    giving: Giving,
) -> None:
    """Request a change from the tracker, and show its answer.

    The topic's id and its number of partitions are taken from the cluster; if they are others when the
    tracker takes the request up, it refuses (compare-and-set). One change of a topic is open at a time.

    More partitions: without --execute you let the topic grow yourself, after
    `kpe change wait --until armed`, and the change is followed. With --gate consumers-first producers keep to
    the old partitions until the groups have a position on the new ones. Fewer, or --offline: producers leave
    partitions and groups drain them; Kafka keeps them. --inverse-of takes its terms from that change.

    \b
    kpe change request -b localhost:9092 --topic orders --to 24 --gate consumers-first --execute
    kpe change request -b localhost:9092 --topic orders --to 24 --execute --yes         in a script
    kpe change request -b localhost:9092 --topic orders --to 24 --from 12 --needs-approval --reason INC-123
    kpe change request -b localhost:9092 --topic orders --to 6 --deadline 30m
    kpe change request -b localhost:9092 --topic orders --offline 3,5 --reason "disk of broker 2"
    kpe change request -b localhost:9092 --broker-offline 2 --dry-run
    id=$(kpe change request -b localhost:9092 --topic orders --to 24 | jq -r .change_id)

    Kafka can't shrink a topic: with --execute it asks first, unless --yes is given.

    Exit codes: 0 the tracker has taken it; 1 refused, and why, or you said no; 2 no such topic, no terminal
    to ask on and no --yes, wrong option or address, no control topics; 3 it was written, and no tracker has
    answered.
    """  # noqa: D301
    wanted.check()
    if id_ and not _ID.fullmatch(id_):
        raise CliError(f"--id {id_!r} is no id; write up to 100 letters, digits, '.', '_' and '-'")
    terms = {
        **wanted.terms,
        "deadline_s": parse_duration(deadline),
        "gate_on_deadline": on_deadline,
        "expires_s": parse_duration(expires),
        "settle_s": 0.0 if settle == "0" else parse_duration(settle),
        "min_acked_ratio": min_acked,
        "on_reject": on_reject,
        "accept_capped": accept_capped,
        "execute": Execute.TRACKER if execute else Execute.EXTERNAL,
        "needs_approval": needs_approval,
    }
    with session(context, where, giving.output, CHANGES) as at:
        check_topic(wanted.topic, at.where.prefix)
        cluster = look_at_cluster(at)
        spec = spec_of(wanted, cluster, at.desk.ledger.changes, terms)
        if id_ in at.desk.ledger.retired:
            raise CliError(f"--id {id_}: there was a change of that id before; take another one")
        command = Command(
            change_id=id_ or ulid(at.host_ms(), os.urandom(RANDOM_BYTES)),
            verb=Verb.REQUEST,
            actor=giving.who,
            reason=giving.reason,
            spec=spec,
        )
        if spec.execute is Execute.TRACKER and spec.kind is Kind.INCREASE:
            giving.confirm(f"{subject(spec)}, on {at.cluster}, for good: Kafka can't shrink a topic", yes=yes)
        give(command, at, giving)
