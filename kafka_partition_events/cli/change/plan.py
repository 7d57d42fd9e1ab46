"""``kpe change plan``: a plan in words and as JSON."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Final

import typer

from kafka_partition_events.cli.change.context import CommandContext, command_context
from kafka_partition_events.cli.change.spec import Wanted, read_cluster, spec_of, view_of
from kafka_partition_events.cli.change.text import document, subject
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError, one_line
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Output, OutputChoice, tell, write_json_line, write_line
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.cli.services.services import SampleRequest
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.changes.plan import (
    GroupOutlook,
    KeyMoves,
    Plan,
    Safety,
    Seen,
    Verdict,
    plan,
)
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.records import Command
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Verb
from kafka_partition_events.diagnose.fingerprint import Fingerprint, fingerprint
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Cluster

EXIT_BLOCKED: Final = 4
EXIT_CODES: Final = {
    Verdict.SAFE: 0,
    Verdict.EXPOSED: EXIT_DIFFERENT,
    Verdict.WOULD_CAP: EXIT_UNKNOWN,
    Verdict.BLOCKED: EXIT_BLOCKED,
}
_SAMPLING_S: Final = 20.0


@with_options
def plan_command(
    context: typer.Context,
    wanted: Wanted,
    *,
    records: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Read the keys of this many of the latest records; 0: none."),
    ] = 2_000,
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """Show what a change would do, before it is requested. Writes nothing.

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24
    kpe change plan -b localhost:9092 --topic orders --to 24 --gate consumers-first --records 20000
    kpe change plan -b localhost:9092 --topic orders --to 24 | jq .verdict

    \b
    - would the tracker refuse it, and why; would Kafka make a part of it only, because it is too much at once
    - which producers would be capped (KIP-34), by what their leases say of their memory
    - which consumer groups may miss records: those with auto.offset.reset=latest, which can't be seen from
      outside, unless all their members run the rebalance hook or producers wait for them (--gate); which are
      Kafka Streams applications, which end with an error when their topic grows
    - how many producers write without the library, at least: no gate holds them (DescribeProducers, which
      needs kafka-python)
    - which part of the keys moves: exact for a hash modulo the partitions, and for rendezvous. How keys are
      placed is found from the latest records; growth moves no key that key_partitions keeps. Of a compacted
      topic a key that moves leaves its last value behind

    Exit codes, the gravest that applies: 0 safe; 1 records may be missed or left behind; 3 a producer would
    be capped; 4 blocked, as in the first line. 2 is an error: no such topic, wrong address, no control
    topics, unknown option. Then there is no plan on stdout.
    """  # noqa: D301
    with command_context(context, where, output) as at:
        cluster = read_cluster(at)
        spec = spec_of(wanted, cluster, at.where.prefix)
        planned = make_plan(at, cluster, spec, records)
    if at.output is Output.TABLE:
        for line in plan_lines(planned):
            write_line(line)
    else:
        write_json_line(plan_document(planned))
    raise typer.Exit(EXIT_CODES[planned.verdict])


def make_plan(at: CommandContext, cluster: Cluster, spec: Spec, records: int) -> Plan:
    """Ask for all that a plan needs, and return it.

    Args:
        at: The control topics and the cluster.
        cluster: The cluster as it is.
        spec: The change.
        records: How many records to read for how keys are placed; 0: none.
    """
    info = cluster.by_topic[spec.topic]
    found = _groups(at, spec.topic)
    led = [partition.tp for partition in info.partitions if partition.online]
    seen = Seen(
        cluster=view_of(spec, cluster, found, at.client.writers(led, at.now_ms())),
        groups=None if found is None else [group for group in found.values() if group is not None],
        keys=_keys(at, spec.topic, records),
        compacted=at.client.compacted(spec.topic) if records else None,
    )
    command = Command(change_id="", verb=Verb.REQUEST, actor="", spec=spec)
    return plan(command, at.client.ledger, seen, at.now_ms())


def _groups(at: CommandContext, topic: str) -> Mapping[str, Group | None] | None:
    try:
        return at.client.groups(topic)
    except MetadataFetchError as error:
        tell(redacted(one_line(error), at.where.config))
        return None


def _keys(at: CommandContext, topic: str, records: int) -> Fingerprint | None:
    """Return how the latest keys were placed; None if there are none, or they can't be read."""
    if not records:
        return None
    request = SampleRequest(topic=topic, records=records, timeout=_SAMPLING_S)
    try:
        sample = at.services.sample(at.where.config, request, lambda _line: None)
    except CliError as error:
        tell(f"the topic's keys can't be read: {redacted(one_line(error), at.where.config)}")
        return None
    keyed = [(record.key, record.partition) for record in sample.records if record.key]
    return fingerprint(keyed, sample.partitions) if keyed else None


_LISTED = 20
_SAFETY = {
    Safety.HOOK: "safe: all members begin new partitions at their beginning",
    Safety.GATE: "safe behind the gate: producers wait until it has a position",
    Safety.ABSENT: "no members: with auto.offset.reset=latest it misses what comes before it is back",
    Safety.EXPOSED: "may miss records if it has auto.offset.reset=latest, which can't be seen from outside",
    Safety.STREAMS: "Kafka Streams: it ends with an error when a topic that it joins or groups by grows",
}
_INVISIBLE = "share groups, groups of KIP-1071 and readers without a group can't be seen"


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as one JSON object."""
    request = Command(change_id="", verb=Verb.REQUEST, actor="", spec=plan.spec)
    refusal = plan.refusal
    return {
        "kind": "change_plan",
        "verdict": plan.verdict.value,
        "spec": document(request)["spec"],
        "refusal": refusal and {"reason": refusal.refused, "detail": refusal.detail},
        "producers": plan.producers,
        "without_limit": plan.without_limit,
        "capped": [{"instance_id": name, "affords": most} for name, most in plan.capped.items()],
        "uncovered": plan.uncovered,
        "exposed": list(plan.exposed),
        "groups": None if plan.groups is None else [_group_document(group) for group in plan.groups],
        "strangers": list(plan.strangers),
        "keys": None if plan.keys is None else [_keys_document(keys) for keys in plan.keys],
        "unverified": [*plan.unverified, _INVISIBLE],
    }


def _group_document(outlook: GroupOutlook) -> dict[str, Any]:
    group = outlook.group
    return {
        "group": group.group_id,
        "protocol": group.protocol,
        "state": group.state.lower(),
        "members": len(group.members),
        "hooked": outlook.hooked,
        "safety": outlook.safety.value,
    }


def _keys_document(keys: KeyMoves) -> dict[str, Any]:
    moves = keys.moves
    return {
        "rule": keys.rule,
        "share": round(keys.share, 6),
        "moves": None if moves is None else round(float(moves), 6),
        "moves_exactly": None if moves is None else str(moves),
        "why": _why(keys),
    }


def plan_lines(plan: Plan) -> Iterator[str]:
    """Return a plan in words, line by line."""
    verdict = plan.verdict.value.replace("_", " ")
    yield f"{subject(plan.spec)}: {verdict}"
    if plan.refusal is not None:
        yield f"  the tracker would refuse it: {plan.refusal.detail} ({plan.refusal.refused})"
    yield from _producer_lines(plan)
    yield from _group_lines(plan)
    yield from _key_lines(plan)
    yield from (f"  exposed: {why}" for why in plan.exposed)
    for doubt in (*plan.unverified, _INVISIBLE):
        yield f"  not verified: {doubt}"


def _producer_lines(plan: Plan) -> Iterator[str]:
    yield f"  {counted(plan.producers, 'producer')} with the library, {plan.without_limit:,} without a limit"
    if plan.uncovered:
        yield f"  without the library: at least {counted(plan.uncovered, 'writer')}, which no gate holds"
    for name, affords in [*plan.capped.items()][:_LISTED]:
        yield f"  capped: {name} affords {affords} of {plan.spec.to_count}"
    if len(plan.capped) > _LISTED:
        yield f"  capped: {len(plan.capped) - _LISTED:,} more"


def exposure(plan: Plan) -> Iterator[str]:
    """Yield why records may be missed or left behind, in words."""
    yield from plan.exposed
    for outlook in plan.groups or ():
        if outlook.safety in {Safety.EXPOSED, Safety.STREAMS}:
            yield f"group {outlook.group.group_id}: {_SAFETY[outlook.safety]}"


def _group_lines(plan: Plan) -> Iterator[str]:
    if plan.groups is None:
        yield "  groups: no broker could be asked"
    elif not plan.groups:
        yield "  groups: none reads it or has committed offsets of it"
    for outlook in plan.groups or ():
        group = outlook.group
        members = f"{group.protocol}, {counted(len(group.members), 'member')}, {outlook.hooked} with the hook"
        yield f"  group {group.group_id} ({members}): {_SAFETY[outlook.safety]}"
    for name in plan.strangers:
        yield f"  group {name}: required, and it neither reads the topic nor has offsets of it; see its name"


def _key_lines(plan: Plan) -> Iterator[str]:
    if plan.keys is None:
        yield "  keys: none were seen"
        return
    if not plan.keys:
        yield "  keys: too few to say how they are placed"
    for keys in plan.keys:
        rule = keys.rule or "another rule"
        moves = f"not known: {_why(keys)}" if keys.moves is None else f"{_percent(keys.moves)} of them move"
        yield f"  keys placed by {rule} ({keys.share:.1%}): {moves}"


def _why(keys: KeyMoves) -> str:
    """Return why it can't be known what becomes of keys; empty if it is known."""
    if keys.moves is not None:
        return ""
    if keys.rule is None:
        return "no known hash placed them"
    return "they are from when there were fewer partitions, or key_partitions keeps them there"


def _percent(part: Fraction) -> str:
    return f"{float(part):.1%} ({part})"
