"""``kpe change request``."""

import os
import re
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.change.session import (
    Actor,
    AnswerTimeout,
    Control,
    ControlOptions,
    DryRun,
    Why,
    actor_of,
    give,
    session,
)
from kafka_partition_events.cli.change.spec import (
    BrokerOffline,
    BrokerOnline,
    From,
    GateChoice,
    GateOption,
    InverseOf,
    Offline,
    Online,
    RequiredGroups,
    To,
    Topic,
    Wanted,
    check_topic,
    groups_of,
    look_at_cluster,
    spec_of,
)
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import (
    Bootstrap,
    ClientOptions,
    OutputChoice,
    Prefix,
    Verbose,
    parse_duration,
)
from kafka_partition_events.control.protocol.records import RANDOM_BYTES, Command, ulid
from kafka_partition_events.control.protocol.topics import CHANGES, PREFIX
from kafka_partition_events.control.protocol.vocabulary import Execute, OnDeadline, OnReject, Verb

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
"""Keys in the control topics are made of ids and ``|``."""


def request_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    topic: Topic = None,
    to: To = None,
    from_: From = None,
    offline: Offline = None,
    online: Online = None,
    broker_offline: BrokerOffline = None,
    broker_online: BrokerOnline = None,
    inverse_of: InverseOf = None,
    gate: GateOption = GateChoice.NONE,
    required_group: RequiredGroups = None,
    deadline: Annotated[
        str,
        typer.Option(metavar="DURATION", help="After it has happened, everybody must follow in this time."),
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
        bool, typer.Option("--needs-approval", help="Nothing happens before somebody else approves.")
    ] = False,
    reason: Why = "",
    actor: Actor = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="Its id; sent twice, it is requested once. Default: a new ULID."
        ),
    ] = None,
    client_options: ClientOptions = None,
    control: Control = None,
    control_options: ControlOptions = None,
    prefix: Prefix = PREFIX,
    answer_timeout: AnswerTimeout = "10s",
    dry_run: DryRun = False,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Ask the tracker for a change, and show its answer.

    The topic's id and its number of partitions are taken from the cluster; if they are others when the
    tracker takes the request up, it refuses (compare-and-set). One change of a topic is open at a time.

    More partitions: without --execute somebody else lets the topic grow, after
    `kpe change wait --until armed`, and the change is followed. With --gate consumers-first producers keep to
    the old partitions until the groups have a position on the new ones. Fewer, or --offline: producers leave
    partitions and groups drain them; Kafka keeps them. --inverse-of takes its terms from that change.

    \b
    kpe change request -b localhost:9092 --topic orders --to 24 --gate consumers-first --execute
    kpe change request -b localhost:9092 --topic orders --to 24 --from 12 --needs-approval --reason INC-123
    kpe change request -b localhost:9092 --topic orders --to 6 --deadline 30m
    kpe change request -b localhost:9092 --topic orders --offline 3,5 --reason "disk of broker 2"
    kpe change request -b localhost:9092 --broker-offline 2 --dry-run
    id=$(kpe change request -b localhost:9092 --topic orders --to 24 | jq -r .change_id)

    Exit codes: 0 the tracker has taken it; 1 refused, and why; 2 no such topic, wrong option or address, no
    control topics; 3 it was written, and no tracker has answered.
    """  # noqa: D301
    wanted = Wanted(
        topic=topic,
        to=to,
        from_=from_,
        offline=offline,
        online=online,
        broker_offline=broker_offline,
        broker_online=broker_online,
        inverse_of=inverse_of,
    )
    wanted.check()
    if id_ and not _ID.fullmatch(id_):
        raise CliError(f"--id {id_!r} is no id; write up to 100 letters, digits, '.', '_' and '-'")
    check_topic(topic, prefix)
    terms = {
        "gate": gate.rule,
        "required_groups": groups_of(required_group),
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
    with session(
        context,
        bootstrap,
        client_options,
        prefix=prefix,
        output=output,
        verbose=verbose,
        control=control,
        control_options=control_options,
        reads=CHANGES,
    ) as at:
        cluster = look_at_cluster(at)
        spec = spec_of(wanted, cluster, at.desk.ledger.changes, terms)
        if id_ in at.desk.ledger.retired:
            raise CliError(f"--id {id_}: there was a change of that id before; take another one")
        command = Command(
            change_id=id_ or ulid(at.host_ms(), os.urandom(RANDOM_BYTES)),
            verb=Verb.REQUEST,
            actor=actor_of(actor),
            reason=reason,
            spec=spec,
        )
        give(command, at, answer_timeout=answer_timeout, dry_run=dry_run)
