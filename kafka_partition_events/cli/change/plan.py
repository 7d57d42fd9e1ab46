"""``kpe change plan``: a plan in words and as JSON."""

from collections.abc import Iterator
from typing import Any, Final

import typer
from attrs import asdict

from kafka_partition_events.cli.change.context import CommandContext, command_context
from kafka_partition_events.cli.change.spec import Wanted, spec_of
from kafka_partition_events.cli.change.text import subject
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, one_line
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Output, OutputChoice, report, write_json_line, write_line
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.cli.services.services import read_cluster
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.plan import WORDS, Plan, Safety, Verdict, plan
from kafka_partition_events.control.protocol.records import group_name
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Cluster

EXIT_BLOCKED: Final = 4
EXIT_CODES: Final = {Verdict.SAFE: 0, Verdict.EXPOSED: EXIT_DIFFERENT, Verdict.BLOCKED: EXIT_BLOCKED}


@with_options
def plan_command(
    context: typer.Context, wanted: Wanted, *, output: OutputChoice = None, where: ControlOptions
) -> None:
    """Show what a change would do, before it is requested. Writes nothing.

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24
    kpe change plan -b localhost:9092 --topic orders --to 24 --gate
    kpe change plan -b localhost:9092 --topic orders --to 24 | jq .verdict

    \b
    - would the tracker refuse it, and why: by the rules that need no [policy], which only the tracker knows
    - which consumer groups may miss records: those with auto.offset.reset=latest, which can't be seen from
      outside, unless all their members run the rebalance hook or producers wait for them (--gate); which are
      Kafka Streams applications, which end with an error when their topic grows
    - is the topic compacted: a key that moves leaves its last value behind (kpe spark whatif counts how many
      keys move, kpe doctor partitioner how they are placed)

    Exit codes, the gravest that applies: 0 nothing was found against it; read what is not verified before you
    rely on it; 1 records may be missed or left behind; 4 blocked, as in the first line. 2 is an error, and
    stdout is empty: no such topic, one whose number of partitions is a contract, fewer partitions, or more
    than 10,000 at once; wrong address, no control topics, unknown option.
    """  # noqa: D301
    with command_context(context, where, output) as at:
        cluster = read_cluster(at.services, at.where.config)
        planned = make_plan(at, cluster, spec_of(wanted, cluster, at.where.prefix))
    if at.output is Output.TABLE:
        for line in plan_lines(planned):
            write_line(line)
    else:
        write_json_line(plan_document(planned))
    raise typer.Exit(EXIT_CODES[planned.verdict])


def make_plan(at: CommandContext, cluster: Cluster, spec: Spec) -> Plan:
    """Ask for all that a plan needs, and return it."""
    info = cluster.by_topic[spec.topic]
    try:
        found = at.client.groups(spec.topic, len(info.partitions))
    except MetadataFetchError as error:
        report(redacted(one_line(error), at.where.config))
        found = None
    seen = found or {}
    unseen = frozenset(group_name(name) for name, group in seen.items() if group is None)
    members = frozenset(group_name(name) for name, group in seen.items() if group and group.members)
    view = ClusterView(
        count=len(info.partitions),
        topic_id=info.topic_id,
        readers=None if found is None or unseen else members,
        unseen_groups=unseen,
    )
    return plan(
        spec,
        at.client.ledger,
        view,
        None if found is None else [group for group in seen.values() if group is not None],
        compacted=at.client.is_compacted(spec.topic),
        now_ms=at.now_ms(),
    )


_INVISIBLE = (
    "producers without the library, share groups, groups of KIP-1071 and readers without a group can't be "
    "seen"
)


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as one JSON object."""
    unverified = [*plan.unverified, _INVISIBLE]
    return {"kind": "change_plan", "verdict": plan.verdict.value, **asdict(plan), "unverified": unverified}


def plan_lines(plan: Plan) -> Iterator[str]:
    """Return a plan in words, line by line."""
    yield f"{subject(plan.spec)}: {plan.verdict.value}"
    if plan.refusal is not None:
        yield f"  the tracker would refuse it: {plan.refusal}"
    yield f"  {counted(plan.producers, 'producer')} with the library"
    yield from _group_lines(plan)
    yield from (f"  exposed: {why}" for why in plan.exposed)
    for doubt in (*plan.unverified, _INVISIBLE):
        yield f"  not verified: {doubt}"


def exposure(plan: Plan) -> Iterator[str]:
    """Yield why records may be missed or left behind, in words."""
    yield from plan.exposed
    for outlook in plan.groups or ():
        if outlook.safety in {Safety.EXPOSED, Safety.STREAMS}:
            yield f"group {outlook.group}: {WORDS[outlook.safety]}"


def _group_lines(plan: Plan) -> Iterator[str]:
    if plan.groups is None:
        yield "  groups: no broker could be asked"
    elif not plan.groups:
        yield "  groups: none reads it or has committed offsets of it"
    for outlook in plan.groups or ():
        members = f"{outlook.protocol}, {counted(outlook.members, 'member')}, {outlook.hooked} with the hook"
        yield f"  group {outlook.group} ({members}): {WORDS[outlook.safety]}"
