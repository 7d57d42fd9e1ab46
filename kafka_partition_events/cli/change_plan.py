"""``kpe change plan``."""

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.arguments import Bootstrap, ClientOptions, OutputChoice, Verbose
from kafka_partition_events.cli.change_session import Control, ControlOptions, Prefix, Session, session
from kafka_partition_events.cli.change_spec import (
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
    view_of,
)
from kafka_partition_events.cli.errors import EXIT_DIFFERENT, EXIT_ERROR, EXIT_UNKNOWN, CliError, one_line
from kafka_partition_events.cli.output import Output, tell, write_json_line, write_line
from kafka_partition_events.cli.plan_words import plan_document, plan_lines
from kafka_partition_events.cli.services import SampleRequest
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.group_state import Group
from kafka_partition_events.control.plan import Seen, Verdict, plan
from kafka_partition_events.control.records import Command
from kafka_partition_events.control.topics import PREFIX
from kafka_partition_events.control.words import Verb
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.fingerprint import Fingerprint, fingerprint

EXIT_CODES: Final = {
    Verdict.SAFE: 0,
    Verdict.EXPOSED: EXIT_DIFFERENT,
    Verdict.WOULD_CAP: EXIT_UNKNOWN,
    Verdict.BLOCKED: EXIT_ERROR,
}
_GROUPS_S: Final = 15.0
_SAMPLING_S: Final = 20.0


def plan_command(
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
    records: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Look at the keys of so many of the latest records; 0: none."),
    ] = 2_000,
    client_options: ClientOptions = None,
    control: Control = None,
    control_options: ControlOptions = None,
    prefix: Prefix = PREFIX,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Tell what a change would do, before anybody asks for it. Writes nothing.

    \b
    - would the tracker refuse it, and why; would Kafka make a part of it only, because it is too much at once
    - which producers would be capped (KIP-34), by what their leases say of their memory; which have rejected
      such a change before
    - which consumer groups may miss records: those with auto.offset.reset=latest, which nobody can see from
      outside, unless all their members run the rebalance hook or producers wait for them (--gate)
    - how many producers write without the library, at least: no gate holds them (DescribeProducers, which
      needs kafka-python)
    - which part of the keys moves: exact for a hash modulo the partitions, and for rendezvous. How keys are
      placed is told from the latest records; of keys that are pinned it is known that growth alone moves none
    - how long changes of this kind have taken

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24
    kpe change plan -b localhost:9092 --topic orders --to 24 --gate consumers-first --records 20000
    kpe change plan -b localhost:9092 --topic orders --offline 3,5 | jq .verdict

    Exit codes, the gravest that applies: 0 safe; 1 a group may miss records; 3 a producer would be capped, or
    would reject it; 2 blocked, as in the first line. 2 is also what any other error is: no such topic,
    wrong address, no control topics, unknown option. Then there is no plan on stdout.
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
    check_topic(topic, prefix)
    terms = {"gate": gate.rule, "required_groups": groups_of(required_group)}
    with session(
        context,
        bootstrap,
        client_options,
        prefix=prefix,
        output=output,
        verbose=verbose,
        control=control,
        control_options=control_options,
    ) as at:
        cluster = look_at_cluster(at)
        spec = spec_of(wanted, cluster, at.desk.ledger.changes, terms)
        found = _groups(at, spec.topic)
        writers = _writers(at, cluster, spec.topic)
        view = view_of(spec, cluster, found, writers)
        groups = None if found is None else [group for group in found.values() if group is not None]
        seen = Seen(cluster=view, groups=groups, keys=_keys(at, spec.topic, records))
        command = Command(change_id="", verb=Verb.REQUEST, actor="", spec=spec)
        planned = plan(command, at.desk.ledger, seen, at.now_ms())
    if at.output is Output.JSONL:
        write_json_line(plan_document(planned))
    else:
        for line in plan_lines(planned):
            write_line(line)
    raise typer.Exit(EXIT_CODES[planned.verdict])


def _groups(at: Session, topic: str | None) -> Mapping[str, Group | None] | None:
    if topic is None:
        return None
    try:
        return at.desk.groups(topic, _GROUPS_S)
    except MetadataFetchError as error:
        tell(redacted(one_line(error), at.config))
        return None


def _writers(at: Session, cluster: Cluster, topic: str | None) -> int | None:
    info = None if topic is None else cluster.by_topic.get(topic)
    if info is None:
        return None
    led = [partition.tp for partition in info.partitions if partition.online]
    return at.desk.writers(led, at.now_ms())


def _keys(at: Session, topic: str | None, records: int) -> Fingerprint | None:
    """Return how the latest keys were placed; None if there are none, or they can't be read."""
    if topic is None or not records:
        return None
    request = SampleRequest(topic=topic, records=records, timeout=_SAMPLING_S)
    try:
        sample = at.services.sample(at.config, request, lambda _line: None)
    except CliError as error:
        tell(f"the topic's keys can't be read: {redacted(one_line(error), at.config)}")
        return None
    keyed = [(record.key, record.partition) for record in sample.records if record.key]
    return fingerprint(keyed, sample.partitions) if keyed else None
